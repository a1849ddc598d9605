// SPDX-License-Identifier: Apache-2.0
// A vector as the element type of the formulas in math/rnn.h: arithmetic, comparisons, select, and the functions of
// math/activation.h, each accurate to a few units in the last place for any argument.
#pragma once

#include "cpu/kernels/simd.h"
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
    friend FLASHSCAN_INLINE Mask<T> operator==(Lanes a, Lanes b) { return {a.v == b.v}; }
};

template <typename T>
FLASHSCAN_INLINE Lanes<T> select(Mask<T> mask, Lanes<T> a, Lanes<T> b) {
    return Lanes<T>(mask.bits ? a.v : b.v);
}

// A vector of integers, which wrap.
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
FLASHSCAN_INLINE Lanes<T> reciprocal(Lanes<T> x) {
    return Lanes<T>(T(1) / x.v);
}
template <typename T>
FLASHSCAN_INLINE Lanes<T> sqrt_of(Lanes<T> x) {
    return Lanes<T>(square_root(x.v));
}

// exp(x) as exponential() has it, 2^n (1 + r s), and 1 - exp(x) = -(2^n r s + (2^n - 1)). 2^n - 1 is exact where it does
// not hide r s.
template <typename T>
FLASHSCAN_INLINE ExpAndRest<Lanes<T>> exp_and_rest(Lanes<T> x) {
    using S = Simd<T>;
    using Int = typename S::Int;
    const Vec<T> clamped = x.v > S::top ? splat<T>(S::top) : x.v < S::bottom ? splat<T>(S::bottom) : x.v;
    const Vec<T> shifted = fused(clamped, splat<T>(T(1.44269504088896340736)), splat<T>(S::magic));
    const Vec<T> n = shifted - S::magic;
    const Vec<T> r = fused(n, splat<T>(-S::ln2_low), fused(n, splat<T>(-S::ln2_high), clamped));
    Vec<T> sum = splat<T>(T(inverse_factorial(S::terms)));
#pragma GCC unroll 16
    for (int k = S::terms - 1; k >= 1; --k) sum = fused(sum, r, splat<T>(T(inverse_factorial(k))));
    const Int whole = reinterpret_cast<Int>(shifted) - reinterpret_cast<Int>(splat<T>(S::magic));
    const Int half = whole >> 1;
    const Vec<T> low = reinterpret_cast<Vec<T>>((half + S::bias) << S::mantissa);
    const Vec<T> high = reinterpret_cast<Vec<T>>((whole - half + S::bias) << S::mantissa);
    const Vec<T> exp = fused(sum, r, splat<T>(1)) * low * high, power = low * high;
    const Vec<T> near = -fused(power, sum * r, power - T(1)), rest = x.v > T(60) ? T(1) - exp : near;
    return {Lanes<T>(x.v == x.v ? exp : x.v), Lanes<T>(x.v == x.v ? rest : x.v)};
}

// 1 / (1 + exp(-x)), from exp(-|x|).
template <typename T>
FLASHSCAN_INLINE Lanes<T> sigmoid(Lanes<T> x) {
    const Vec<T> e = exponential<T>(x.v < T(0) ? x.v : -x.v);
    return Lanes<T>((x.v < T(0) ? e : splat<T>(1)) / (e + T(1)));
}

// tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1), 2 |x| = n ln 2 + r, which keeps
// relative accuracy at 0. From the clamp on the quotient is 1.
template <typename T>
FLASHSCAN_INLINE Lanes<T> tanh_of(Lanes<T> x) {
    using S = Simd<T>;
    using Int = typename S::Int;
    constexpr T most = sizeof(T) == 8 ? T(44) : T(22);
    const Vec<T> size = x.v < T(0) ? x.v * T(-2) : x.v + x.v;
    const Vec<T> y = size > most ? splat<T>(most) : size;
    const Vec<T> shifted = fused(y, splat<T>(T(1.44269504088896340736)), splat<T>(S::magic));
    const Vec<T> n = shifted - S::magic;
    const Vec<T> r = fused(n, splat<T>(-S::ln2_low), fused(n, splat<T>(-S::ln2_high), y));
    Vec<T> sum = splat<T>(T(inverse_factorial(S::terms)));
#pragma GCC unroll 16
    for (int k = S::terms - 1; k >= 1; --k) sum = fused(sum, r, splat<T>(T(inverse_factorial(k))));
    const Int whole = reinterpret_cast<Int>(shifted) - reinterpret_cast<Int>(splat<T>(S::magic));
    const Vec<T> power = reinterpret_cast<Vec<T>>((whole + S::bias) << S::mantissa);
    const Vec<T> e = fused(power, sum * r, power - T(1));
    const Vec<T> quotient = e / (e + T(2));
    // The sign of a zero and NaN as they came.
    return Lanes<T>(x.v < T(0) ? -quotient : x.v > T(0) ? quotient : x.v);
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

template <typename T>
FLASHSCAN_INLINE Lanes<T> log1p_of_fraction(Lanes<T> x) {
    return Lanes<T>(log1p_of_fraction<T>(x.v));
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> log_sigmoid(Lanes<T> x) {
    const Vec<T> e = exponential<T>(x.v < T(0) ? x.v : -x.v);
    return Lanes<T>((x.v < T(0) ? x.v : Vec<T>{}) - log1p_of_fraction<T>(e));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
