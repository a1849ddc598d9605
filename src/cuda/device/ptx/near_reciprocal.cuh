// SPDX-License-Identifier: Apache-2.0
// An approximate reciprocal in f64, by one instruction.
#pragma once

namespace flashscan::cuda::ptx {

// 1 / x with a relative error of at most 2^-20.
__device__ __forceinline__ double near_reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

}  // namespace flashscan::cuda::ptx
