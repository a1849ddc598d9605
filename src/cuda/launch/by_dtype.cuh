// SPDX-License-Identifier: Apache-2.0
// The type of a dtype's elements, among those that kernels are compiled for.
#pragma once

#include <type_traits>

#include "cuda/device/math/types.cuh"
#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

template <typename X>
inline constexpr Dtype dtype_of = Dtype{};
template <>
inline constexpr Dtype dtype_of<float> = Dtype::f32;
template <>
inline constexpr Dtype dtype_of<__nv_bfloat16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<__half> = Dtype::f16;
template <>
inline constexpr Dtype dtype_of<double> = Dtype::f64;
template <>
inline constexpr Dtype dtype_of<Complex<float>> = Dtype::c64;
template <>
inline constexpr Dtype dtype_of<Complex<double>> = Dtype::c128;

// The real type that data of type X is computed with.
template <typename X>
using RealOf = std::conditional_t<std::is_same_v<X, double> || std::is_same_v<X, Complex<double>>, double, float>;

template <typename X, typename... Others>
struct TypesAmong {
    static_assert(dtype_of<X> != Dtype{});
    // Returns f<T>() for the type T of `dtype`, which must be among these.
    template <typename F>
    static auto visit(Dtype dtype, F&& f) {
        if (dtype == dtype_of<X>) return f.template operator()<X>();
        if constexpr (sizeof...(Others) > 0)
            return TypesAmong<Others...>::visit(dtype, f);
        else
            fail_without_kernels(dtype);
    }
    // Returns f<T, G>() for the types of data and of gates or weights, which have the type of data or the real one that
    // it is computed with.
    template <typename F>
    static auto visit_pair(Dtype dtype, Dtype second, F&& f) {
        return visit(dtype, [&]<typename T>() {
            return TypesAmong<T, RealOf<T>>::visit(second, [&]<typename G>() { return f.template operator()<T, G>(); });
        });
    }
};
using RealTypes = TypesAmong<float, __nv_bfloat16, __half, double>;
using NumberTypes = TypesAmong<float, __nv_bfloat16, __half, double, Complex<float>, Complex<double>>;
using StateTypes = TypesAmong<float, double, Complex<float>, Complex<double>>;  // nothing is computed in 16 bits

}  // namespace flashscan::cuda
