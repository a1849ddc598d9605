// SPDX-License-Identifier: Apache-2.0
// Named barriers of a block, for some of its warps.
#pragma once

namespace flashscan::cuda::ptx {

// Waits at barrier `Id` until `Threads` threads of the block have called this; __syncthreads uses barrier 0.
template <int Id, int Threads>
__device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}

}  // namespace flashscan::cuda::ptx
