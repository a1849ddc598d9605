// SPDX-License-Identifier: Apache-2.0
// Functions of f32 in one instruction each, within 2^-22 of themselves. Subnormal arguments and results are zeros.
#pragma once

#include <cuda_runtime.h>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ float quick_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float quick_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float quick_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace flashscan::cuda::ptx
