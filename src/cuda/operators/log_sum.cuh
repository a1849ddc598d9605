// SPDX-License-Identifier: Apache-2.0
// The logaddexp of many numbers by one exponential for each number and one logarithm for each result.
//
// log(exp(x[0]) + ... + exp(x[n])) is held as the greatest x and the sum of exp(x[i] - greatest), which of finite x
// lies between 1 and n + 1. A greater x rescales the sum (Milakov, Gimelshein: Online normalizer calculation for
// softmax, 2018). Each step waits for one multiply-add of the step before.
//
// In f32 the absolute error of an exponential and of a logarithm is 2^-22 at most, so that a result near 0 loses
// digits: that of 0 and -20 is 0.
#pragma once

#include "cuda/device/math/quick_double.cuh"
#include "cuda/device/math/quick_float.cuh"
#include "math/operators.h"

namespace flashscan::cuda {

// exp(x) for x <= 0. Callers pass larger x only beside an infinite one, where any positive result gives theirs.
__device__ __forceinline__ float exp_of_negative(float x) { return ptx::quick_exp2(x * log2_e); }
__device__ __forceinline__ double exp_of_negative(double x) { return ::exp(x); }
// log(x) and 1 / x for sums of exponentials, one of which is 1, so that x >= 1. The logarithm also takes 0.
__device__ __forceinline__ float log_of_exponentials(float x) { return ptx::quick_log2(x) * log_of_2; }
__device__ __forceinline__ double log_of_exponentials(double x) { return ::log(x); }
__device__ __forceinline__ float reciprocal_of_exponentials(float x) { return ptx::quick_reciprocal(x); }
__device__ __forceinline__ double reciprocal_of_exponentials(double x) { return quick_reciprocal(x); }

template <typename Wide>
struct LogSum {
    Wide most, sum;

    __device__ __forceinline__ void begin(Wide y) { most = y, sum = 1; }
    __device__ __forceinline__ Wide value() const { return most + log_of_exponentials(sum); }
    // exp(-|x - most|), and 1 for equal infinities.
    __device__ __forceinline__ Wide ratio(Wide x) const {
        return select(x == most, Wide(1), exp_of_negative(-fabs(x - most)));
    }
    // A NaN x makes the sum NaN, though fmax passes over it.
    __device__ __forceinline__ void add(Wide x) {
        const bool greater = x > most;
        sum = fma(ratio(x), select(greater, sum, Wide(1)), select(greater, Wide(1), sum));
        most = fmax(most, x);
    }
    // The same, with the derivatives of the new value by the old one and by x; equal operands have a half each. Where
    // the old value is infinite it counts as one number, however many infinities have made it, since the derivatives
    // are those of logaddexp(old, x).
    __device__ __forceinline__ void add(Wide x, Wide& left, Wide& right) {
        sum = select(fabs(most) == Wide(combine::infinity), fma(sum, Wide(0), Wide(1)), sum);  // NaN stays
        const bool greater = x > most;
        const Wide less = ratio(x), of_old = select(greater, less * sum, sum), of_x = select(greater, Wide(1), less);
        sum = of_old + of_x;
        most = fmax(most, x);
        const Wide whole = reciprocal_of_exponentials(sum);
        left = of_old * whole;
        right = of_x * whole;
    }
};

// The logaddexp of N numbers, which need not wait for each other.
template <int N, typename Wide, typename Get>
__device__ __forceinline__ Wide log_of_sum(Get&& get) {
    Wide most = get(0), sum[4] = {};
#pragma unroll
    for (int i = 1; i < N; ++i) most = fmax(most, get(i));
    // Infinity less itself is NaN.
    const Wide finite = select(fabs(most) == Wide(combine::infinity), Wide(0), most);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i % 4] += exp_of_negative(get(i) - finite);
    return most + log_of_exponentials((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

}  // namespace flashscan::cuda
