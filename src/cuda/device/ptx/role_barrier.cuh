// SPDX-License-Identifier: Apache-2.0
// Named barriers 1 to 15 of a block for specialised warps, of which some only arrive (producer and consumer). A phase
// ends when `threads` threads have arrived. compute-sanitizer's racecheck does not follow arrivals without a wait and
// reports races there, though this is the use of `barrier.arrive` that the PTX manual describes.
#pragma once

namespace flashscan::cuda::ptx {

// Arrives and waits; what others wrote before they arrived is visible after.
__device__ __forceinline__ void wait_at_barrier(int id, int threads) {
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_at_barrier(int id, int threads) {
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace flashscan::cuda::ptx
