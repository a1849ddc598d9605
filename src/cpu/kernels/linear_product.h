// SPDX-License-Identifier: Apache-2.0
// Products of gates over many steps, which may overflow or underflow the type of the arithmetic and come back into its
// range. So a product is a mantissa times 2^(64 power), in f64 times 2^(512 power), and the mantissa is kept in the
// middle of the range. Each step multiplies the mantissa and tests whether a lane has left the middle, which is rare.
// Mantissas are scaled by powers of two alone, so that a product's bits do not depend on when that happens.
#pragma once

#include "cpu/kernels/simd.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The middle of the range is [low, high). When a lane of a vector has left it, lanes of `high` and more are multiplied
// by `down`, and lanes below `raise` by `up`. `least` is the least normal number; a product of `most` and more keeps a
// power. The others are for linear_block.h: where all states are between plain_low and plain_high, or all are at most
// `faint`, or they differ by less than a factor of 1 / ratio, nothing that counts was lost; the bits of a magnitude;
// and half of what the bits of two numbers add up to whose product is at least four times the least normal number.
template <typename T>
struct Middle;
template <>
struct Middle<float> {
    static constexpr float low = 0x1p-63F, high = 0x1p65F, up = 0x1p64F, down = 0x1p-64F, raise = 0x1p-16F;
    static constexpr float least = 0x1p-126F, most = 0x1p120F;
    static constexpr float zero_power = 0x1p20F;  // is subtracted from the power of a product that is 0
    static constexpr float faint = 0x1p-30F, ratio = 0x1p-90F, plain_low = 0x1p-30F, plain_high = 0x1p60F;
    static constexpr int32_t magnitude = 0x7fffffff, ample = (127 + 3) << 22;
};
template <>
struct Middle<double> {
    static constexpr double low = 0x1p-511, high = 0x1p513, up = 0x1p512, down = 0x1p-512, raise = 0x1p-64;
    static constexpr double least = 0x1p-1022, most = 0x1p1000;
    static constexpr double zero_power = 0x1p20;
    static constexpr double faint = 0x1p-60, ratio = 0x1p-950, plain_low = 0x1p-400, plain_high = 0x1p500;
    static constexpr int64_t magnitude = 0x7fffffffffffffff, ample = int64_t{1023 + 3} << 51;
};

// Returns a mask with a bit for each lane whose sign bit is set.
FLASHSCAN_INLINE unsigned signs(VecF v) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(v));
#elif defined(__AVX2__)
    return static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(v)));
#elif defined(__x86_64__)
    return static_cast<unsigned>(_mm_movemask_ps(reinterpret_cast<__m128>(v)));
#elif defined(__aarch64__)
    return vaddvq_u32((reinterpret_cast<VecU>(v) >> 31) << VecU{0, 1, 2, 3});
#else
    unsigned bits = 0;
    for (int i = 0; i < Simd<float>::width; ++i) bits |= (reinterpret_cast<VecU>(v)[i] >> 31) << i;
    return bits;
#endif
}
FLASHSCAN_INLINE unsigned signs(VecD v) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask(reinterpret_cast<__m512i>(v));
#elif defined(__AVX2__)
    return static_cast<unsigned>(_mm256_movemask_pd(reinterpret_cast<__m256d>(v)));
#elif defined(__x86_64__)
    return static_cast<unsigned>(_mm_movemask_pd(reinterpret_cast<__m128d>(v)));
#else
    unsigned bits = 0;
    for (int i = 0; i < Simd<double>::width; ++i) bits |= unsigned(reinterpret_cast<VecQ>(v)[i] >> 63) << i;
    return bits;
#endif
}

// Sets the sign of exactly the lanes that are in the middle of the range. There the upper two bits of the exponent
// differ; the addition carries so that the upper one is set there alone, and the shift moves it to the sign.
FLASHSCAN_INLINE VecF sign_in_middle(VecF v) {
    return reinterpret_cast<VecF>((reinterpret_cast<VecU>(v) + 0x20000000U) << 1);
}
FLASHSCAN_INLINE VecD sign_in_middle(VecD v) {
    return reinterpret_cast<VecD>((reinterpret_cast<VecQ>(v) + 0x2000000000000000U) << 1);
}

// Returns a mask with a bit for each lane outside the middle.
template <typename T>
FLASHSCAN_INLINE unsigned outside_middle(Vec<T> v) {
    return signs(sign_in_middle(v)) ^ ((1U << Simd<T>::width) - 1);
}

FLASHSCAN_INLINE VecF larger(VecF a, VecF b) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecF>(
        _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif defined(__AVX2__)
    return reinterpret_cast<VecF>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#elif defined(__x86_64__)
    return reinterpret_cast<VecF>(_mm_max_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b)));
#else
    return a > b ? a : b;
#endif
}
FLASHSCAN_INLINE VecD larger(VecD a, VecD b) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecD>(
        _mm512_maskz_max_pd(0xff, reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b)));
#elif defined(__AVX2__)
    return reinterpret_cast<VecD>(_mm256_max_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b)));
#elif defined(__x86_64__)
    return reinterpret_cast<VecD>(_mm_max_pd(reinterpret_cast<__m128d>(a), reinterpret_cast<__m128d>(b)));
#else
    return a > b ? a : b;
#endif
}

// Returns for each lane the larger of the magnitudes of the parts of its number.
template <bool Complex, typename T>
FLASHSCAN_INLINE Vec<T> size_of(Vec<T> v) {
    const Vec<T> size = magnitude<T>(v);
    if constexpr (!Complex) return size;
    return larger(size, pick<-3, T>(size));
}
template <typename T>
FLASHSCAN_INLINE Vec<T> size_of(Two<T> v) {
    return larger(magnitude<T>(v.even), magnitude<T>(v.odd));
}
template <typename T>
FLASHSCAN_INLINE T size_of(T x) {
    return x < 0 ? -x : x;
}
template <typename T>
FLASHSCAN_INLINE T size_of(Complex<T> x) {
    const T re = size_of(x.re), im = size_of(x.im);
    return re > im ? re : im;
}

FLASHSCAN_INLINE void set_one(float& x) { x = 1; }
FLASHSCAN_INLINE void set_one(double& x) { x = 1; }
template <typename T>
FLASHSCAN_INLINE void set_one(Complex<T>& x) {
    x = {1, 0};
}

// Returns a * b of single numbers, rounded as `multiply` of vectors rounds it. Complex products name the operations
// that are fused, because GCC 12 fuses others although its options forbid it.
template <typename T>
FLASHSCAN_INLINE T product_of(T a, T b) {
    return a * b;
}
template <typename T>
FLASHSCAN_INLINE Complex<T> product_of(Complex<T> a, Complex<T> b) {
    return {fused(a.re, b.re, -a.im * b.im), fused(a.re, b.im, a.im * b.re)};
}

// Computes product *= a for one number, whatever their sizes are. A NaN or an infinity stays what it is.
template <typename T, typename Element>
FLASHSCAN_INLINE void multiply_far(Element a, Element& product, T& power) {
    using M = Middle<T>;
    Element next = product_of(a, product);
    for (int k = 0; k < 3 && size_of(next) < M::low; ++k) {
        a = M::up * a;
        next = product_of(a, product);
        power -= 1;
    }
    for (int k = 0; k < 3 && size_of(next) >= M::high; ++k) {
        a = M::down * a;
        next = product_of(a, product);
        power += 1;
    }
    if (size_of(next) < M::low) {
        set_one(next);
        power -= M::zero_power;
    }
    product = next;
}

// Makes the power of one product 0 where the product is a normal number, so that equal products have the same mantissa
// and power.
template <typename T, typename Element>
FLASHSCAN_INLINE void settle(Element& product, T& power) {
    using M = Middle<T>;
    for (; power < 0 && size_of(product) >= M::least * M::up; power += 1) product = M::down * product;
    for (; power > 0 && size_of(product) < M::most * M::down; power -= 1) product = M::up * product;
}

// Returns product * carry for one number. Of the two factors the one is scaled that loses no bits by it.
template <typename T, typename Element>
FLASHSCAN_INLINE Element moved(Element product, T power, Element carry) {
    using M = Middle<T>;
    if (power < -8) return size_of(carry) * 0 == 0 ? Element{} : carry;
    for (; power < 0; power += 1) {
        if (size_of(product) > size_of(carry))
            product = M::down * product;
        else
            carry = M::down * carry;
    }
    for (int k = 0; k < 8 && power > 0; ++k, power -= 1) carry = M::up * carry;
    return product_of(product, carry);
}

// Computes factors that bring back the products of a vector that are a little outside the middle, and adapts the
// powers. Products below `raise` are scaled as well, so that lanes that decay alike come here together. Returns false,
// and changes nothing, where a lane outside the middle has lost bits.
template <typename T>
FLASHSCAN_INLINE bool recentre(Vec<T> size, unsigned outside, Vec<T>& factor, T* power, int n) {
    using M = Middle<T>;
    const Vec<T> precise = size >= M::low * M::low && size <= M::most ? splat<T>(T(-1)) : splat<T>(T(1));
    if ((outside & ~signs(precise)) != 0) return false;
    const Vec<T> one = splat<T>(T(1));
    const Vec<T> down = size >= M::high ? splat<T>(M::down) : one;
    factor = size < M::raise ? splat<T>(M::up) : down;
    const Vec<T> turn = size < M::raise ? -one : size >= M::high ? one : Vec<T>{};
    for (int i = 0; i < n; ++i) power[i] += turn[i];
    return true;
}

// The rare part of multiply_product: `outside` has a bit for each lane of the first n that has left the middle.
template <bool Complex, bool Conj, typename T>
__attribute__((noinline, cold)) void far_lanes(const Vec<T>& gate, Vec<T>& product, const Vec<T>& next, T* power,
                                               unsigned outside, int n) {
    Vec<T> factor;
    if (recentre<T>(size_of<Complex, T>(next), outside, factor, power, n)) {
        product = next * factor;
        return;
    }
    if constexpr (Complex) {
        using Number = flashscan::Complex<T>;
        for (int i = 0; i + 1 < n; i += 2) {
            Number p{product[i], product[i + 1]};
            multiply_far(Number{gate[i], Conj ? -gate[i + 1] : gate[i + 1]}, p, power[i]);
            product[i] = p.re, product[i + 1] = p.im, power[i + 1] = power[i];
        }
    } else {
        for (int i = 0; i < n; ++i) {
            T p = product[i];
            multiply_far(T(gate[i]), p, power[i]);
            product[i] = p;
        }
    }
}

// Computes product *= gate in the first n lanes, or in all where n is 0.
template <bool Complex, bool Conj, typename T>
FLASHSCAN_INLINE void multiply_product(Vec<T> gate, Vec<T>& product, T* power, int n) {
    const Vec<T> next = multiply<Complex, Conj, T>(gate, product);
    unsigned outside = outside_middle<T>(Complex ? size_of<Complex, T>(next) : next);
    if (n != 0) outside &= (1U << n) - 1;
    if (outside != 0) [[unlikely]] {
        // The call takes copies, so that the variables of the caller's loop have no address and stay in registers.
        const Vec<T> a = gate, far = next;
        Vec<T> p = product;
        far_lanes<Complex, Conj, T>(a, p, far, power, outside, n == 0 ? Simd<T>::width : n);
        product = p;
    } else {
        product = next;
    }
}

// multiply_product for two adjacent vectors of products in memory, with one test for both.
template <bool Complex, bool Conj, typename T>
FLASHSCAN_INLINE void multiply_products(Vec<T> a, Vec<T> b, T* products, T* power) {
    constexpr int width = Simd<T>::width;
    Vec<T> low = load(products), high = load(products + width);
    const Vec<T> next_low = multiply<Complex, Conj, T>(a, low), next_high = multiply<Complex, Conj, T>(b, high);
    const Vec<T> size = Complex ? size_of<Complex, T>(next_low) : next_low;
    const Vec<T> other = Complex ? size_of<Complex, T>(next_high) : next_high;
    using Int = typename Simd<T>::Int;
    const Int both = reinterpret_cast<Int>(sign_in_middle(size)) & reinterpret_cast<Int>(sign_in_middle(other));
    if (signs(reinterpret_cast<Vec<T>>(both)) != (1U << width) - 1) [[unlikely]] {
        multiply_product<Complex, Conj, T>(a, low, power, 0);
        multiply_product<Complex, Conj, T>(b, high, power + width, 0);
        store<T>(products, low);
        store<T>(products + width, high);
        return;
    }
    store<T>(products, next_low);
    store<T>(products + width, next_high);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
