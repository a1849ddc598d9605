// SPDX-License-Identifier: Apache-2.0
// The time of the device in nanoseconds, which goes on at the same pace on all multiprocessors.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ uint64_t global_time() {
    uint64_t nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds)::"memory");
    return nanoseconds;
}

}  // namespace flashscan::cuda::ptx
