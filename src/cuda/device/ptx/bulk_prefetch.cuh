// SPDX-License-Identifier: Apache-2.0
// Asks the bulk copy engine to bring contiguous bytes into L2. The count and the address must be multiples of 16.
// Before compute capability 9.0 nothing is brought.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void prefetch_bytes([[maybe_unused]] const void* from, [[maybe_unused]] uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

}  // namespace flashscan::cuda::ptx
