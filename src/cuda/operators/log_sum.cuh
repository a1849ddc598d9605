// SPDX-License-Identifier: Apache-2.0
// The logaddexp of many numbers by one exponential for each number and one logarithm for each result.
//
// log(exp(x[0]) + ... + exp(x[n])) is held as the greatest x and the sum of exp(x[i] - greatest), which of finite x
// lies between 1 and n + 1. A greater x rescales the sum (Milakov, Gimelshein: Online normalizer calculation for
// softmax, 2018). Each step waits for one multiply-add of the step before.
//
// Most numbers are less than what the numbers before them have come to, or little greater. A lane then subtracts one
// and the same number from all of its numbers (NearLogSum), which takes half as many instructions.
//
// In f32 the absolute error of an exponential below 1 and of a logarithm is 2^-22 at most, so that a result near 0
// loses digits: that of 0 and -20 is 0.
#pragma once

#include "cuda/device/math/quick_double.cuh"
#include "cuda/device/math/quick_float.cuh"
#include "math/operators.h"

namespace flashscan::cuda {

// exp(x) for x <= 0. A larger x comes only beside an infinite greatest number, which the result is whatever this gives.
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

// LogSum in f32 with one reference `base` for all of a lane's numbers: the greater of y and the first of them. It holds
// while no number exceeds base by more than `reach`. Scaled computes base / log(2) in advance, which saves an
// instruction of each exponential. While |base| < `largest`, rounding this quotient shifts the result by less than the
// last place of base, so that logaddexp of -infinity and x need not be x: Scaled is for 16-bit numbers, or where only
// ratios of exponentials count.
template <bool Scaled>
struct NearLogSum {
    static constexpr float reach = 4, largest = 0x1p20F;
    float base, scaled, sum;

    // Begins with y, before a lane's numbers of row v (LaneNumbers of lane_numbers.cuh). Returns whether they are
    // within reach and base is not too large. A NaN makes the sum NaN.
    template <typename Numbers>
    __device__ __forceinline__ bool begin(float y, const Numbers& numbers, int v) {
        base = fmaxf(y, numbers.get(0, v));
        scaled = base * log2_e;
        sum = exponential(y);
        return numbers.greatest(v) <= base + reach && fabsf(base) < largest;
    }
    __device__ __forceinline__ float exponential(float x) const {
        return ptx::quick_exp2(Scaled ? fmaf(x, log2_e, -scaled) : (x - base) * log2_e);
    }
    __device__ __forceinline__ float value() const { return fmaf(ptx::quick_log2(sum), log_of_2, base); }
    __device__ __forceinline__ void add(float x) { sum += exponential(x); }
    __device__ __forceinline__ void add(float x, float& left, float& right) {
        const float of_x = exponential(x), whole = ptx::quick_reciprocal(sum + of_x);
        left = sum * whole;
        right = of_x * whole;
        sum += of_x;
    }
};

// The logaddexp of a lane's numbers of row v, which need not wait for each other.
template <typename X, typename Numbers>
__device__ __forceinline__ typename Numbers::Wide log_of_sum(const Numbers& numbers, int v) {
    using Wide = typename Numbers::Wide;
    constexpr int L = Numbers::L;
    const Wide most = numbers.greatest(v);
    Wide sum[4] = {};
    const auto whole = [&] { return most + log_of_exponentials((sum[0] + sum[1]) + (sum[2] + sum[3])); };
    if constexpr (sizeof(X) == 2) {
        if (fabsf(most) < NearLogSum<true>::largest) {
            const NearLogSum<true> near{most, most * log2_e, 0};
#pragma unroll
            for (int k = 0; k < L; ++k) sum[k % 4] += near.exponential(numbers.get(k, v));
            return whole();
        }
        numbers.widen_again();
    }
    // Infinity less itself is NaN.
    const Wide finite = select(fabs(most) == Wide(combine::infinity), Wide(0), most);
#pragma unroll
    for (int k = 0; k < L; ++k) sum[k % 4] += exp_of_negative(numbers.get(k, v) - finite);
    return whole();
}

}  // namespace flashscan::cuda
