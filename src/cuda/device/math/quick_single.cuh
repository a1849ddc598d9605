// SPDX-License-Identifier: Apache-2.0
// QuickSingle: f32 with fast sigmoid and tanh, for cells of recurrent networks in f32 whose steps wait for nothing
// else. They are within 4 units in the last place and have no branches, as those of Quick, which are less accurate far
// from 0; the absolute error of the logarithm is 2^-22.
#pragma once

#include "cuda/device/math/quick_float.cuh"

namespace flashscan::cuda {

struct QuickSingle {
    float value;
    QuickSingle() = default;
    __device__ __forceinline__ QuickSingle(float x) : value(x) {}  // NOLINT: numbers convert
};

__device__ __forceinline__ float value_of(QuickSingle x) { return x.value; }

__device__ __forceinline__ QuickSingle operator+(QuickSingle a, QuickSingle b) { return a.value + b.value; }
__device__ __forceinline__ QuickSingle operator-(QuickSingle a, QuickSingle b) { return a.value - b.value; }
__device__ __forceinline__ QuickSingle operator*(QuickSingle a, QuickSingle b) { return a.value * b.value; }
__device__ __forceinline__ QuickSingle operator/(QuickSingle a, QuickSingle b) {
    return a.value * ptx::quick_reciprocal(b.value);
}
__device__ __forceinline__ QuickSingle operator-(QuickSingle a) { return -a.value; }
__device__ __forceinline__ QuickSingle& operator+=(QuickSingle& a, QuickSingle b) { return a = a + b; }
__device__ __forceinline__ bool operator<(QuickSingle a, QuickSingle b) { return a.value < b.value; }
__device__ __forceinline__ bool operator>(QuickSingle a, QuickSingle b) { return a.value > b.value; }
__device__ __forceinline__ bool operator==(QuickSingle a, QuickSingle b) { return a.value == b.value; }

constexpr float log2_e_rest = 1.925963033e-8F;  // log2(e) - log2_e

__device__ __forceinline__ QuickSingle exp_of(QuickSingle x) { return ::expf(x.value); }
// exp(-x) may be infinite, and its reciprocal is then 0. What the product with log2(e) loses of the power is put back
// by the first term of its series; a result that would be subnormal is 0.
__device__ __forceinline__ QuickSingle sigmoid(QuickSingle x) {
    const float power = x.value * -log2_e, e = ptx::quick_exp2(power);
    const float lost = fmaf(x.value, -log2_e, -power) - x.value * log2_e_rest;
    const float more = pick_less(fabsf(power), 126.0F, lost * log_of_2, 0.0F);
    return pick_less(126.0F, power, 0.0F, ptx::quick_reciprocal(1.0F + fmaf(e, more, e)));
}
__device__ __forceinline__ QuickSingle log_sigmoid(QuickSingle x) { return log_sigmoid(Quick(x.value)).value; }
// Far from 0 an error of the power counts less than the 2^-22 that it is off by.
__device__ __forceinline__ QuickSingle tanh_of(QuickSingle x) { return tanh_of(Quick(x.value)).value; }

}  // namespace flashscan::cuda
