// SPDX-License-Identifier: Apache-2.0
// Products of places and strides.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// n strides, where a stride has 32 bits. This and an addition to an address are one instruction; where the compiler
// sees the products of neighbouring n, it steps a pointer instead, which takes two for each.
__device__ __forceinline__ int64_t long_product(int32_t n, int64_t stride) {
    int64_t product;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(n), "r"(static_cast<int32_t>(stride)));
    return product;
}

}  // namespace flashscan::cuda
