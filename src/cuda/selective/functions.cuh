// SPDX-License-Identifier: Apache-2.0
// Arithmetic of selective scans: softplus and sigmoids that take few instructions, and products of real or complex
// numbers.
#pragma once

#include <type_traits>

#include "cuda/device/math/decay.cuh"
#include "cuda/device/ptx/quick_functions.cuh"
#include "math/activation.h"

namespace flashscan::cuda {

// The derivative d(delta a) / d(delta rate).
template <typename V>
__device__ __forceinline__ constexpr auto rate_unit() {
    if constexpr (std::is_same_v<V, float>)
        return 0.69314718F;
    else if constexpr (std::is_same_v<V, Complex<float>>)
        return 1.0F;
    else
        return 1.0;
}

// Adds the real part of a b to the sum.
template <typename R>
__device__ __forceinline__ R add_real_product(R a, R b, R sum) {
    return multiply_add(a, b, sum);
}
template <typename R>
__device__ __forceinline__ R add_real_product(Complex<R> a, Complex<R> b, R sum) {
    return multiply_add(-a.im, b.im, multiply_add(a.re, b.re, sum));
}

// log(1 + exp(x)). For floats it takes few instructions, and one of the special function unit, which selective scans
// keep busy: a polynomial for log(1 + e) / e with e = exp(-|x|), at most 1, whose relative error is below 2^-22.5 with
// that of its arithmetic.
template <typename R>
__device__ __forceinline__ R softplus(R x) {
    return (x > R(0) ? x : R(0)) + log1p_of(exp_of(x > R(0) ? -x : x));
}
__device__ __forceinline__ float softplus(float x) {
    const float e = ptx::quick_exp2(fabsf(x) * -log2_e);
    float ratio = 0.0052326941F;
    for (const float term :
         {-0.029505238F, 0.078225948F, -0.13663246F, 0.19106007F, -0.24842982F, 0.33319098F, -0.49999493F, 0.99999994F})
        ratio = fmaf(ratio, e, term);
    return fmaf(e, ratio, fmaxf(x, 0.0F));
}
// The pair of 1 / (1 + exp(-x)) and 1 / (1 + exp(x)).
template <typename R>
struct OpenAndShut {
    R open, shut;
};
template <typename R>
__device__ __forceinline__ OpenAndShut<R> sigmoids(R x) {
    return {sigmoid(x), sigmoid(-x)};
}
__device__ __forceinline__ OpenAndShut<float> sigmoids(float x) {
    const float e = exp_negative(x), open = ptx::quick_reciprocal(1.0F + e);
    return {open, e * open};
}

}  // namespace flashscan::cuda
