// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flashscan::cuda::ptx {

// Within 2^-20 of 1 / x.
__device__ __forceinline__ double near_reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

}  // namespace flashscan::cuda::ptx
