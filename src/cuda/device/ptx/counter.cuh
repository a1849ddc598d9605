// SPDX-License-Identifier: Apache-2.0
// Counters in global memory by which blocks of one launch signal others that their writes are done.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

// To be called by one thread after a barrier of the block: the block's writes are visible to those who wait for the
// count.
__device__ __forceinline__ void count_up(uint32_t* counter) {
#if __CUDA_ARCH__ >= 700
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
#endif
}

// To be called by one thread before a barrier of the block: polls until the counter has reached `count`.
__device__ __forceinline__ void wait_for_count(const uint32_t* counter, uint32_t count) {
#if __CUDA_ARCH__ >= 700
    uint32_t now = 0;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    while (now < count);
#endif
}

}  // namespace flashscan::cuda::ptx
