// SPDX-License-Identifier: Apache-2.0
// Numbers that cells of dtype X are worked out in: f32 as exact as its functions, others by short ones.
#pragma once

#include "cuda/kernels/quick_double.cuh"
#include "cuda/kernels/quick_float.cuh"

namespace flashscan::cuda {

template <typename X>
struct RnnReal {
    using Type = Quick;
};
template <>
struct RnnReal<float> {
    using Type = float;
};
template <>
struct RnnReal<double> {
    using Type = QuickDouble;
};

__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ float value_of(Quick x) { return x.value; }
__device__ __forceinline__ double value_of(QuickDouble x) { return x.value; }

// All of an array's numbers as those of another type.
template <typename To, typename From, int N>
__device__ __forceinline__ void as_numbers(const From (&from)[N], To (&to)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = To(from[i]);
}
template <typename To, typename From, int N>
__device__ __forceinline__ void as_values(const From (&from)[N], To (&to)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = value_of(from[i]);
}

}  // namespace flashscan::cuda
