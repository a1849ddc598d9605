// SPDX-License-Identifier: Apache-2.0
// The index of a thread in its block, for kernels that are short of registers.
#pragma once

namespace flashscan::cuda::ptx {

// Reads threadIdx.x again, so that the compiler does not keep values in registers that it computed from an earlier
// read.
__device__ __forceinline__ int thread_index() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

}  // namespace flashscan::cuda::ptx
