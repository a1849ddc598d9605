// SPDX-License-Identifier: Apache-2.0
// A vector as the element type of the formulas in math/rnn.h: arithmetic, comparisons, select, and the functions of
// math/activation.h, each accurate to a few units in the last place for any argument.
#pragma once

#include "cpu/kernels/exponential.h"
#include "math/activation.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
struct Mask {
    typename Simd<T>::Int bits;
};

template <typename T>
struct Lanes {
    Vec<T> v;
    Lanes() = default;
    explicit FLASHSCAN_INLINE Lanes(T x) : v(splat<T>(x)) {}
    explicit FLASHSCAN_INLINE Lanes(Vec<T> x) : v(x) {}

    friend FLASHSCAN_INLINE Lanes operator+(Lanes a, Lanes b) { return Lanes(a.v + b.v); }
    friend FLASHSCAN_INLINE Lanes operator-(Lanes a, Lanes b) { return Lanes(a.v - b.v); }
    friend FLASHSCAN_INLINE Lanes operator*(Lanes a, Lanes b) { return Lanes(a.v * b.v); }
    friend FLASHSCAN_INLINE Lanes operator/(Lanes a, Lanes b) { return Lanes(a.v / b.v); }
    friend FLASHSCAN_INLINE Lanes operator-(Lanes a) { return Lanes(-a.v); }
    friend FLASHSCAN_INLINE Lanes& operator+=(Lanes& a, Lanes b) { return a = a + b; }
    friend FLASHSCAN_INLINE Mask<T> operator<(Lanes a, Lanes b) { return {a.v < b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator>(Lanes a, Lanes b) { return {a.v > b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator<=(Lanes a, Lanes b) { return {a.v <= b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator>=(Lanes a, Lanes b) { return {a.v >= b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator==(Lanes a, Lanes b) { return {a.v == b.v}; }
};

template <typename T>
FLASHSCAN_INLINE Lanes<T> select(Mask<T> mask, Lanes<T> a, Lanes<T> b) {
    return Lanes<T>(mask.bits ? a.v : b.v);
}

// A vector of integers, whose arithmetic wraps around.
template <typename T>
struct Integers {
    using Unsigned = typename Simd<T>::Unsigned;
    Vec<T> v;
    Integers() = default;
    explicit FLASHSCAN_INLINE Integers(T x) : v(splat<T>(x)) {}
    explicit FLASHSCAN_INLINE Integers(Vec<T> x) : v(x) {}
    static FLASHSCAN_INLINE Integers of(Unsigned x) { return Integers(reinterpret_cast<Vec<T>>(x)); }
    FLASHSCAN_INLINE Unsigned bits() const { return reinterpret_cast<Unsigned>(v); }

    friend FLASHSCAN_INLINE Integers operator+(Integers a, Integers b) { return of(a.bits() + b.bits()); }
    friend FLASHSCAN_INLINE Integers operator*(Integers a, Integers b) { return of(a.bits() * b.bits()); }
    friend FLASHSCAN_INLINE Integers operator&(Integers a, Integers b) { return of(a.bits() & b.bits()); }
    friend FLASHSCAN_INLINE Integers operator|(Integers a, Integers b) { return of(a.bits() | b.bits()); }
    friend FLASHSCAN_INLINE Integers operator^(Integers a, Integers b) { return of(a.bits() ^ b.bits()); }
    friend FLASHSCAN_INLINE Mask<T> operator<(Integers a, Integers b) { return {a.v < b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator>(Integers a, Integers b) { return {a.v > b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator<=(Integers a, Integers b) { return {a.v <= b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator>=(Integers a, Integers b) { return {a.v >= b.v}; }
    friend FLASHSCAN_INLINE Mask<T> operator==(Integers a, Integers b) { return {a.v == b.v}; }
};
template <typename T>
FLASHSCAN_INLINE Integers<T> select(Mask<T> mask, Integers<T> a, Integers<T> b) {
    return Integers<T>(mask.bits ? a.v : b.v);
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> exp_of(Lanes<T> x) {
    return Lanes<T>(exponential<T>(x.v));
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> exp_of_minus_magnitude(Lanes<T> x) {
    return Lanes<T>(exponential_of_minus_magnitude<T>(x.v));
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> reciprocal(Lanes<T> x) {
    return Lanes<T>(T(1) / x.v);
}
template <typename T>
FLASHSCAN_INLINE Lanes<T> sqrt_of(Lanes<T> x) {
    return Lanes<T>(square_root(x.v));
}

// Returns exp(x) = 2^n (1 + r s) with exp(r) = 1 + r s, and 1 - exp(x) = -(2^n r s + (2^n - 1)), which does not cancel
// near x = 0. 2^n - 1 is exact wherever r s counts beside it.
template <typename T>
FLASHSCAN_INLINE ExpAndRest<Lanes<T>> exp_and_rest(Lanes<T> x) {
    const Reduced<T> at = reduced<T>(at_least(at_most(x.v, Simd<T>::top), Simd<T>::bottom));
    const Vec<T> part = exponential_series<1, T>(at.r) * at.r, power = times_power(splat<T>(1), at.shifted);
    const Vec<T> exp = times_power(part + T(1), at.shifted);
    const Vec<T> near = -fused(power, part, power - T(1));
    return {Lanes<T>(exp), Lanes<T>(x.v > T(60) ? T(1) - exp : near)};
}
// The same for x <= 0, where exp(x) cannot overflow and needs no upper clamp.
template <typename T>
FLASHSCAN_INLINE ExpAndRest<Lanes<T>> exp_and_rest_of_negative(Lanes<T> x) {
    const Reduced<T> at = reduced<T>(at_least(x.v, Simd<T>::bottom));
    const Vec<T> part = exponential_series<1, T>(at.r) * at.r, power = times_power(splat<T>(1), at.shifted);
    return {Lanes<T>(fused(power, part, power)), Lanes<T>(fused(-power, part, T(1) - power))};
}

// 1 / (1 + exp(-x)), from exp(-|x|).
template <typename T>
FLASHSCAN_INLINE Lanes<T> sigmoid(Lanes<T> x) {
    const Vec<T> e = exponential_of_minus_magnitude<T>(x.v);
    return Lanes<T>((x.v < T(0) ? e : splat<T>(1)) / (e + T(1)));
}

// tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1), 2 |x| = n ln 2 + r, which keeps
// relative accuracy at 0. From the clamp on the quotient is 1.
template <typename T>
FLASHSCAN_INLINE Lanes<T> tanh_of(Lanes<T> x) {
    constexpr T most = sizeof(T) == 8 ? T(44) : T(22);
    const Vec<T> size = magnitude<T>(x.v);
    const Reduced<T> at = reduced<T>(at_most(size + size, most));
    const Vec<T> power = times_power(splat<T>(1), at.shifted);
    const Vec<T> e = fused(power, exponential_series<1, T>(at.r) * at.r, power - T(1));
    const Vec<T> quotient = e / (e + T(2));
    return Lanes<T>(with_sign_of<T>(quotient, x.v));
}

// log(1 + e) for 0 <= e <= 1: 2 artanh(s) with s = e / (2 + e) <= 1 / 3, a series of terms of one sign.
template <typename T>
FLASHSCAN_INLINE Vec<T> log1p_of_fraction(Vec<T> e) {
    constexpr int terms = sizeof(T) == 8 ? 17 : 8;
    const Vec<T> s = e / (e + T(2)), square = s * s;
    Vec<T> sum = splat<T>(T(1) / T(2 * terms + 1));
#pragma GCC unroll 20
    for (int k = terms - 1; k >= 1; --k) sum = fused(sum, square, splat<T>(T(1) / T(2 * k + 1)));
    return (s + s) * fused(sum, square, splat<T>(1));
}

// log(1 + exp(x)) for x <= 0. It is taken as 0 where exp(x) is below the normal numbers or about to be, since subnormal
// operands are slow, and x is minus infinity wherever an identity or a masked number is.
template <typename T>
FLASHSCAN_INLINE Lanes<T> log1p_of_exp(Lanes<T> x) {
    constexpr T least = sizeof(T) == 8 ? T(-708.3) : T(-87.3);
    const Vec<T> e = exponential_within<T>(at_least(x.v, least));
    return Lanes<T>(log1p_of_fraction<T>(x.v < least ? Vec<T>{} : e));
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> log_sigmoid(Lanes<T> x) {
    const Vec<T> e = exponential_of_minus_magnitude<T>(x.v);
    return Lanes<T>((x.v < T(0) ? x.v : Vec<T>{}) - log1p_of_fraction<T>(e));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
