// SPDX-License-Identifier: Apache-2.0
// Whether numbers are neither infinite nor NaN, and whether they are NaN, complex ones in both parts.
#pragma once

#include <cfloat>

#include "math/number.h"

namespace flashscan::cuda {

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= FLT_MAX; }
__device__ __forceinline__ bool is_finite(double x) { return fabs(x) <= DBL_MAX; }
template <typename T>
__device__ __forceinline__ bool is_finite(Complex<T> x) {
    return is_finite(x.re) && is_finite(x.im);
}

__device__ __forceinline__ bool is_nan(float x) { return x != x; }
__device__ __forceinline__ bool is_nan(double x) { return x != x; }
template <typename T>
__device__ __forceinline__ bool is_nan(Complex<T> x) {
    return is_nan(x.re) && is_nan(x.im);
}

}  // namespace flashscan::cuda
