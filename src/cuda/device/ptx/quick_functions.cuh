// SPDX-License-Identifier: Apache-2.0
// Functions of f32 in one or two instructions.
#pragma once

#include <cuda_runtime.h>

namespace flashscan::cuda::ptx {

// Results below 2^-126 are zero; within 4 and 2 units of roundoff.
__device__ __forceinline__ float quick_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float quick_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Within 2^-22 of itself or of 1; subnormal numbers are zeros.
__device__ __forceinline__ float quick_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// x between -limit and limit; NaN stays.
__device__ __forceinline__ float clamp_between(float x, float limit) {
    float y;
    asm("{\n\t.reg .f32 high;\n\tmin.NaN.f32 high, %1, %2;\n\tmax.NaN.f32 %0, high, %3;\n\t}"
        : "=f"(y)
        : "f"(x), "f"(limit), "f"(-limit));
    return y;
}

}  // namespace flashscan::cuda::ptx
