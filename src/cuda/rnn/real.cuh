// SPDX-License-Identifier: Apache-2.0
// The numbers in which cells of dtype X are worked out: f32 with exact functions for f32, shorter functions for 16 bits
// and for f64 (device/math/).
#pragma once

#include <type_traits>

#include "cuda/device/math/quick_double.cuh"
#include "cuda/device/math/quick_float.cuh"

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

// Where each step has a barrier or a launch; only f64's functions are long enough to matter there.
template <typename X>
using RnnStepReal = std::conditional_t<sizeof(X) == 2, float, typename RnnReal<X>::Type>;

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
