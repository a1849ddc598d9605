// SPDX-License-Identifier: Apache-2.0
// cp.async: copies from global to shared memory that do not pass through registers (sm_80 and up).
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

template <int Bytes>
__device__ __forceinline__ void copy_async(uint32_t shared, const void* global) {
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global), "n"(Bytes) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most Pending of this thread's latest groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace flashscan::cuda::ptx
