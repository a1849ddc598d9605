// SPDX-License-Identifier: Apache-2.0
// Split precision: f32 factors as the sums of two tf32, for tensor cores.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// x = high + low, where high is x rounded to the 11 significant bits of tf32. The low part of infinity is NaN.
__device__ __forceinline__ void split_tf32(float x, float& high, float& low) {
    high = __uint_as_float((__float_as_uint(x) + 0x1000U) & 0xffffe000U);
    low = x - high;
}
// The same as operands of tensor cores.
__device__ __forceinline__ void split_tf32(float x, uint32_t& high, uint32_t& low) {
    float h, l;
    split_tf32(x, h, l);
    high = __float_as_uint(h);
    low = __float_as_uint(l);
}

}  // namespace flashscan::cuda
