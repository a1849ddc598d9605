// SPDX-License-Identifier: Apache-2.0
// exp of vectors: exp(x) = 2^n exp(r), where x = n ln 2 + r with an integer n and |r| <= ln(2) / 2, and exp(r) is its
// Taylor series.
#pragma once

#include <type_traits>

#include "cpu/kernels/simd.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

constexpr double inverse_factorial(int k) {
    double product = 1;
    for (int i = 2; i <= k; ++i) product *= i;
    return 1 / product;
}

// r and n of the opening comment, with n = shifted - magic. x has to be between Simd's bottom and top.
template <typename T>
struct Reduced {
    Vec<T> r, shifted;
};
template <typename T>
FLASHSCAN_INLINE Reduced<T> reduced(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> shifted = fused(x, splat<T>(T(1.44269504088896340736)), splat<T>(S::magic));
    const Vec<T> n = shifted - S::magic;
    return {fused(n, splat<T>(-S::ln2_low), fused(n, splat<T>(-S::ln2_high), x)), shifted};
}

// The sum of r^(k - First) / k! for k in [First, First + Count): a part of the Taylor series of exp(r), divided by
// r^First. Pairs of terms are formed independently of each other.
template <int First, int Count, typename T>
FLASHSCAN_INLINE Vec<T> exponential_terms(Vec<T> r, Vec<T> square) {
    if constexpr (Count == 1) {
        return splat<T>(T(inverse_factorial(First)));
    } else if constexpr (Count == 2) {
        return fused(splat<T>(T(inverse_factorial(First + 1))), r, splat<T>(T(inverse_factorial(First))));
    } else {
        return fused(exponential_terms<First + 2, Count - 2, T>(r, square), square,
                     exponential_terms<First, 2, T>(r, square));
    }
}
template <int First, typename T>
FLASHSCAN_INLINE Vec<T> exponential_series(Vec<T> r) {
    return exponential_terms<First, Simd<T>::terms + 1 - First, T>(r, r * r);
}

// Returns v 2^n with n = shifted - magic, rounded once where the result is below the normal numbers. Without an
// instruction for it, 2^n is multiplied as two factors, so that neither overflows where the result does not.
#if defined(__AVX512F__)
FLASHSCAN_INLINE VecF times_power(VecF v, VecF shifted) {
    const VecF n = shifted - Simd<float>::magic;
    return reinterpret_cast<VecF>(
        _mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(v), reinterpret_cast<__m512>(n)));
}
FLASHSCAN_INLINE VecD times_power(VecD v, VecD shifted) {
    const VecD n = shifted - Simd<double>::magic;
    return reinterpret_cast<VecD>(
        _mm512_maskz_scalef_pd(0xff, reinterpret_cast<__m512d>(v), reinterpret_cast<__m512d>(n)));
}
#else
template <typename V>
FLASHSCAN_INLINE V times_power(V v, V shifted) {
    using T = std::remove_cvref_t<decltype(v[0])>;
    using S = Simd<T>;
    using Int = typename S::Int;
    const Int whole = reinterpret_cast<Int>(shifted) - reinterpret_cast<Int>(splat<T>(S::magic));
    const Int half = whole >> 1;
    return v * reinterpret_cast<V>((half + S::bias) << S::mantissa) *
           reinterpret_cast<V>((whole - half + S::bias) << S::mantissa);
}
#endif

// at_most and at_least clamp x at `bound`; a NaN stays a NaN.
#if defined(__AVX512F__)
FLASHSCAN_INLINE VecF at_most(VecF x, float bound) {
    return reinterpret_cast<VecF>(_mm512_maskz_min_ps(0xffff, _mm512_set1_ps(bound), reinterpret_cast<__m512>(x)));
}
FLASHSCAN_INLINE VecF at_least(VecF x, float bound) {
    return reinterpret_cast<VecF>(_mm512_maskz_max_ps(0xffff, _mm512_set1_ps(bound), reinterpret_cast<__m512>(x)));
}
FLASHSCAN_INLINE VecD at_most(VecD x, double bound) {
    return reinterpret_cast<VecD>(_mm512_maskz_min_pd(0xff, _mm512_set1_pd(bound), reinterpret_cast<__m512d>(x)));
}
FLASHSCAN_INLINE VecD at_least(VecD x, double bound) {
    return reinterpret_cast<VecD>(_mm512_maskz_max_pd(0xff, _mm512_set1_pd(bound), reinterpret_cast<__m512d>(x)));
}
#else
template <typename V, typename T>
FLASHSCAN_INLINE V at_most(V x, T bound) {
    return x > bound ? splat<T>(bound) : x;
}
template <typename V, typename T>
FLASHSCAN_INLINE V at_least(V x, T bound) {
    return x < bound ? splat<T>(bound) : x;
}
#endif

template <typename T>
FLASHSCAN_INLINE Vec<T> exponential(Vec<T> x) {
    const Reduced<T> at = reduced<T>(at_least(at_most(x, Simd<T>::top), Simd<T>::bottom));
    return times_power(exponential_series<0, T>(at.r), at.shifted);
}
// exp(-|x|), which cannot overflow.
template <typename T>
FLASHSCAN_INLINE Vec<T> exponential_of_minus_magnitude(Vec<T> x) {
    const Reduced<T> at = reduced<T>(at_least(minus_magnitude<T>(x), Simd<T>::bottom));
    return times_power(exponential_series<0, T>(at.r), at.shifted);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
