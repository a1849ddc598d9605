// SPDX-License-Identifier: Apache-2.0
// cp.async: copies from global to shared memory that a thread starts and waits for later, in groups.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

// Bytes is 4, 8 or 16, and both addresses are multiples of it.
template <int Bytes>
__device__ __forceinline__ void copy_async(void* to_shared, const void* from) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(to_shared));
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(Bytes) : "memory");
}

// Makes a group of the copies that were started since the last group.
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the Newer newest of the thread's groups are still under way.
template <int Newer>
__device__ __forceinline__ void wait_for_copy_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Newer) : "memory");
}

}  // namespace flashscan::cuda::ptx
