// SPDX-License-Identifier: Apache-2.0
// The lesser or greater of 16-bit numbers, pair by pair.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace flashscan::cuda::ptx {

// The greater numbers of two words of two 16-bit numbers each with Max, or else the lesser ones; NaN where one is.
template <typename X, bool Max>
__device__ __forceinline__ uint32_t extremum_of_pairs(uint32_t a, uint32_t b) {
    uint32_t y;
    if constexpr (std::is_same_v<X, __half>) {
        if constexpr (Max)
            asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
        else
            asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    } else {
        static_assert(std::is_same_v<X, __nv_bfloat16>);
        if constexpr (Max)
            asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
        else
            asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    }
    return y;
}

}  // namespace flashscan::cuda::ptx
