// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flashscan::cuda::ptx {

// threadIdx.x, read anew: what is computed from it is not kept from an earlier reading.
__device__ __forceinline__ int thread_index() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

}  // namespace flashscan::cuda::ptx
