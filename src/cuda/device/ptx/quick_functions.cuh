// SPDX-License-Identifier: Apache-2.0
// Functions of f32 that are one or two instructions.
#pragma once

#include <cuda_runtime.h>

namespace flashscan::cuda::ptx {

// The errors of exp2 and of the reciprocal are at most 4 and 2 units of roundoff; results below 2^-126 are zero.
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
// The relative or the absolute error is at most 2^-22; subnormal arguments count as zero.
__device__ __forceinline__ float quick_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 1 / sqrt(x) within 2 units of roundoff.
__device__ __forceinline__ float quick_inverse_root(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// The lesser and the greater of two numbers; NaN if one of them is.
__device__ __forceinline__ float least_of(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
__device__ __forceinline__ float greatest_of(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
// x clamped to [-limit, limit]; NaN stays NaN.
__device__ __forceinline__ float clamp_between(float x, float limit) { return greatest_of(least_of(x, limit), -limit); }

}  // namespace flashscan::cuda::ptx
