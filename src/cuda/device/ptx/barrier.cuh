// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flashscan::cuda::ptx {

// Waits for `Threads` threads of the block, all of the warps that name barrier `Id`; 0 is that of __syncthreads.
template <int Id, int Threads>
__device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}

}  // namespace flashscan::cuda::ptx
