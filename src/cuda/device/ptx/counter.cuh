// SPDX-License-Identifier: Apache-2.0
// Counters in global memory by which blocks of one launch tell others that what they wrote is there.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

// After a barrier of the block: its writes are seen by whoever waits for the count.
__device__ __forceinline__ void count_up(uint32_t* counter) {
#if __CUDA_ARCH__ >= 700
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
#endif
}

// Before a barrier of the block.
__device__ __forceinline__ void wait_for_count(const uint32_t* counter, uint32_t count) {
#if __CUDA_ARCH__ >= 700
    uint32_t now = 0;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    while (now < count);
#endif
}

}  // namespace flashscan::cuda::ptx
