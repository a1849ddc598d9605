// SPDX-License-Identifier: Apache-2.0
// Bounds and inverse roots of f32, each one instruction.
#pragma once

namespace flashscan::cuda::ptx {

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
// 1 / sqrt(x) within 2 units of roundoff.
__device__ __forceinline__ float quick_inverse_root(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace flashscan::cuda::ptx
