// SPDX-License-Identifier: Apache-2.0
// exp of vectors: exp(x) = 2^n exp(r), where x = n ln 2 + r with an integer n and |r| <= ln(2) / 2, and exp(r) is its
// Taylor series. Where an instruction takes numbers from a vector by index, exp in f32 has multiples n of 1 / 8 or 1 /
// 16, whose powers 2^(n - floor(n)) are such a vector: r is smaller, and a few terms are enough.
#pragma once

#include <type_traits>

#include "cpu/kernels/simd.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

constexpr double inverse_factorial(int k) {
    double product = 1;
    for (int i = 2; i <= k; ++i) product *= i;
    return 1 / product;
}

// n of the opening comment is a multiple of 2^-fraction_bits in exponential(), and an integer elsewhere.
template <typename T>
inline constexpr int fraction_bits = 0;
#if defined(__AVX512F__)
template <>
inline constexpr int fraction_bits<float> = 4;
#elif defined(__AVX2__)
template <>
inline constexpr int fraction_bits<float> = 3;
#endif

// Added to n, it leaves n in the low bits.
template <int Bits, typename T>
inline constexpr T magic_of = Simd<T>::magic / (1 << Bits);

// r and n of the opening comment, with n = shifted - magic_of. x has to be between Simd's bottom and top.
template <typename T>
struct Reduced {
    Vec<T> r, shifted;
};
template <typename T, int Bits = 0>
FLASHSCAN_INLINE Reduced<T> reduced(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> shifted = fused(x, splat<T>(T(1.44269504088896340736)), splat<T>(magic_of<Bits, T>));
    const Vec<T> n = shifted - magic_of<Bits, T>;
    return {fused(n, splat<T>(-S::ln2_low), fused(n, splat<T>(-S::ln2_high), x)), shifted};
}

#if defined(__AVX512F__) || defined(__AVX2__)
// 2^(k / 16), rounded.
inline constexpr float powers_of_two[] = {
    0x1.000000p0F, 0x1.0b5586p0F, 0x1.172b84p0F, 0x1.2387a6p0F, 0x1.306fe0p0F, 0x1.3dea64p0F,
    0x1.4bfdaep0F, 0x1.5ab07ep0F, 0x1.6a09e6p0F, 0x1.7a1148p0F, 0x1.8ace54p0F, 0x1.9c4918p0F,
    0x1.ae89fap0F, 0x1.c199bep0F, 0x1.d5818ep0F, 0x1.ea4afap0F,
};
// 2^(n - floor(n)), each number the one of a vector that its low bits choose.
FLASHSCAN_INLINE VecF fraction_power(VecF shifted) {
    constexpr int step = 16 >> fraction_bits<float>;
    VecF powers = {};
    for (int k = 0; k < Simd<float>::width; ++k) powers[k] = powers_of_two[k * step];
#if defined(__AVX512F__)
    return reinterpret_cast<VecF>(
        _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(shifted), reinterpret_cast<__m512>(powers)));
#else
    return reinterpret_cast<VecF>(
        _mm256_permutevar8x32_ps(reinterpret_cast<__m256>(powers), reinterpret_cast<__m256i>(shifted)));
#endif
}
#endif

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

// Returns v 2^floor(n) with n = shifted - magic_of, rounded once where the result is below the normal numbers. Without
// an instruction for it, the power is multiplied as two factors, so that neither overflows where the result does not.
#if defined(__AVX512F__)
template <int Bits = 0>
FLASHSCAN_INLINE VecF times_power(VecF v, VecF shifted) {
    const VecF n = shifted - magic_of<Bits, float>;
    return reinterpret_cast<VecF>(
        _mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(v), reinterpret_cast<__m512>(n)));
}
template <int Bits = 0>
FLASHSCAN_INLINE VecD times_power(VecD v, VecD shifted) {
    const VecD n = shifted - magic_of<Bits, double>;
    return reinterpret_cast<VecD>(
        _mm512_maskz_scalef_pd(0xff, reinterpret_cast<__m512d>(v), reinterpret_cast<__m512d>(n)));
}
#else
template <int Bits = 0, typename V>
FLASHSCAN_INLINE V times_power(V v, V shifted) {
    using T = std::remove_cvref_t<decltype(v[0])>;
    using S = Simd<T>;
    using Int = typename S::Int;
    const Int whole = (reinterpret_cast<Int>(shifted) - reinterpret_cast<Int>(splat<T>(magic_of<Bits, T>))) >> Bits;
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

// x has to be between Simd's bottom and top.
template <typename T>
FLASHSCAN_INLINE Vec<T> exponential_within(Vec<T> x) {
    constexpr int bits = fraction_bits<T>;
    const Reduced<T> at = reduced<T, bits>(x);
    if constexpr (bits == 0) {
        return times_power(exponential_series<0, T>(at.r), at.shifted);
    } else {
        const Vec<T> power = fraction_power(at.shifted);
        Vec<T> sum = splat<T>(T(inverse_factorial(7 - bits)));
#pragma GCC unroll 4
        for (int k = 6 - bits; k >= 1; --k) sum = fused(sum, at.r, splat<T>(T(inverse_factorial(k))));
        return times_power<bits>(fused(power * at.r, sum, power), at.shifted);
    }
}
template <typename T>
FLASHSCAN_INLINE Vec<T> exponential(Vec<T> x) {
    return exponential_within<T>(at_least(at_most(x, Simd<T>::top), Simd<T>::bottom));
}
// exp(-|x|), which cannot overflow.
template <typename T>
FLASHSCAN_INLINE Vec<T> exponential_of_minus_magnitude(Vec<T> x) {
    return exponential_within<T>(at_least(minus_magnitude<T>(x), Simd<T>::bottom));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
