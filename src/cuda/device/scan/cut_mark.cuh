// SPDX-License-Identifier: Apache-2.0
// The factor of a map h -> a h + x in memory where the map gives x whatever h is: a NaN of particular bits, which
// arithmetic does not produce.
#pragma once

#include "cuda/device/math/types.cuh"

namespace flashscan::cuda {

__device__ __forceinline__ float cut_mark(float) { return __int_as_float(0x7fc0f1a5); }
__device__ __forceinline__ double cut_mark(double) { return __longlong_as_double(0x7ff8f1a5f1a50000LL); }
template <typename T>
__device__ __forceinline__ Complex<T> cut_mark(Complex<T>) {
    return {cut_mark(T{}), T(0)};
}
__device__ __forceinline__ bool is_cut_mark(float a) { return __float_as_int(a) == 0x7fc0f1a5; }
__device__ __forceinline__ bool is_cut_mark(double a) { return __double_as_longlong(a) == 0x7ff8f1a5f1a50000LL; }
template <typename T>
__device__ __forceinline__ bool is_cut_mark(Complex<T> a) {
    return is_cut_mark(a.re);
}

}  // namespace flashscan::cuda
