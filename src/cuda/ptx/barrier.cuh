// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flashscan::cuda::ptx {

// Waits for `Threads` threads of the block, all of the warps that name barrier `Id`; 0 is that of __syncthreads.
template <int Id, int Threads>
__device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}

// The same in two: warps that arrive go on, and what they wrote before is seen by those that wait. `threads` counts both.
__device__ __forceinline__ void wait_at_barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_at_barrier(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace flashscan::cuda::ptx
