// SPDX-License-Identifier: Apache-2.0
// Flags in global memory through which blocks of one launch hand data to later blocks.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void store_release(uint32_t* flag, uint32_t value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* flag) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

}  // namespace flashscan::cuda::ptx
