// SPDX-License-Identifier: Apache-2.0
// The type of number in which cells are computed, by the dtype X of the data: float with accurate functions for f32,
// types with faster functions for 16 bits and for f64 (device/math/).
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

// The same for kernels in which every step has a launch or a barrier between blocks: there only the functions of f64
// take long enough to matter, and 16-bit data are computed in float.
template <typename X>
using RnnStepReal = std::conditional_t<sizeof(X) == 2, float, typename RnnReal<X>::Type>;

__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ float value_of(Quick x) { return x.value; }
__device__ __forceinline__ double value_of(QuickDouble x) { return x.value; }

// Converts all numbers of an array to or from such a type.
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
