// SPDX-License-Identifier: Apache-2.0
// Barriers 1 to 15 of a block for warps in different roles: a phase ends when `threads` threads have arrived. racecheck
// does not follow arrivals without a wait: it calls a race what the PTX manual gives as the use of `barrier.arrive`.
#pragma once

namespace flashscan::cuda::ptx {

// Arrives and waits; sees what others wrote before they arrived.
__device__ __forceinline__ void wait_at_barrier(int id, int threads) {
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_at_barrier(int id, int threads) {
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace flashscan::cuda::ptx
