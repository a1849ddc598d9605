// SPDX-License-Identifier: Apache-2.0
// Quick: f32 with fast exp, sigmoid and tanh, for the cells of recurrent networks with 16-bit data. Their relative
// error is at most 2^-20 or their absolute error 2^-22, and they have no branches. Every step of a fused kernel waits
// for its cells, so the latency of these functions counts.
#pragma once

#include <cuda_runtime.h>

#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/quick_functions.cuh"

namespace flashscan::cuda {

struct Quick {
    float value;
    Quick() = default;
    __device__ __forceinline__ Quick(float x) : value(x) {}  // NOLINT: numbers convert
};

__device__ __forceinline__ Quick operator+(Quick a, Quick b) { return a.value + b.value; }
__device__ __forceinline__ Quick operator-(Quick a, Quick b) { return a.value - b.value; }
__device__ __forceinline__ Quick operator*(Quick a, Quick b) { return a.value * b.value; }
__device__ __forceinline__ Quick operator/(Quick a, Quick b) { return a.value * ptx::quick_reciprocal(b.value); }
__device__ __forceinline__ Quick operator-(Quick a) { return -a.value; }
__device__ __forceinline__ Quick& operator+=(Quick& a, Quick b) { return a = a + b; }
__device__ __forceinline__ bool operator<(Quick a, Quick b) { return a.value < b.value; }
__device__ __forceinline__ bool operator>(Quick a, Quick b) { return a.value > b.value; }
__device__ __forceinline__ bool operator==(Quick a, Quick b) { return a.value == b.value; }

constexpr float log_of_2 = 0.69314718F;

__device__ __forceinline__ Quick exp_of(Quick x) { return ptx::quick_exp2(x.value * log2_e); }
// exp(-x) may be infinite, and its reciprocal is then 0.
__device__ __forceinline__ Quick sigmoid(Quick x) {
    return ptx::quick_reciprocal(1.0F + ptx::quick_exp2(x.value * -log2_e));
}
__device__ __forceinline__ Quick log_sigmoid(Quick x) {
    const float more = 1.0F + ptx::quick_exp2(fabsf(x.value) * -log2_e);
    return fmaf(ptx::quick_log2(more), -log_of_2, fminf(x.value, 0.0F));
}
// x < limit ? a : b, without a branch.
__device__ __forceinline__ float pick_less(float x, float limit, float a, float b) {
    float chosen;
    asm("{\n\t.reg .pred less;\n\tsetp.lt.f32 less, %1, %2;\n\tselp.f32 %0, %3, %4, less;\n\t}"
        : "=f"(chosen)
        : "f"(x), "f"(limit), "f"(a), "f"(b));
    return chosen;
}
// 1 - 2 / (exp(2 x) + 1) loses digits near 0, so a polynomial is used there (least squares of the relative error,
// 9e-8).
__device__ __forceinline__ Quick tanh_of(Quick x) {
    const float s = x.value * x.value;
    const float far = fmaf(-2.0F, ptx::quick_reciprocal(ptx::quick_exp2(x.value * (2 * log2_e)) + 1.0F), 1.0F);
    const float p = fmaf(fmaf(fmaf(0.0155801F, s, -0.0521884F), s, 0.13312598F), s, -0.33332564F);
    return pick_less(fabsf(x.value), 0.6F, fmaf(x.value * s, p, x.value), far);
}

}  // namespace flashscan::cuda
