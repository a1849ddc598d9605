// SPDX-License-Identifier: Apache-2.0
// Vectors of the instruction set that this file is compiled for. FLASHSCAN_ISA names it and is the namespace of
// everything here. All functions are forced inline, because the linker must not share them between files built for
// different machines.
#pragma once

#include <cstdint>
#include <utility>

#include "math/number.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define FLASHSCAN_INLINE inline __attribute__((always_inline))

namespace flashscan::cpu::FLASHSCAN_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

typedef float VecF __attribute__((vector_size(vector_bytes)));
typedef double VecD __attribute__((vector_size(vector_bytes)));
typedef int32_t VecI __attribute__((vector_size(vector_bytes)));
typedef int64_t VecL __attribute__((vector_size(vector_bytes)));
typedef uint32_t VecU __attribute__((vector_size(vector_bytes)));
typedef uint64_t VecQ __attribute__((vector_size(vector_bytes)));
typedef uint16_t VecW __attribute__((vector_size(vector_bytes)));
typedef uint16_t VecHalf __attribute__((vector_size(vector_bytes / 2)));
typedef uint8_t VecB __attribute__((vector_size(vector_bytes)));
typedef int8_t VecS __attribute__((vector_size(vector_bytes)));

template <typename T>
struct Simd;
template <>
struct Simd<float> {
    using Vec = VecF;
    using Int = VecI;
    static constexpr int width = vector_bytes / 4;
    static constexpr int mantissa = 23, bias = 127, terms = 7;
    // Adding this, 1.5 * 2^23, rounds to an integer, which is then in the low bits.
    static constexpr float magic = 12582912.0F;
    static constexpr float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
    static constexpr float top = 88.8F, bottom = -104.0F;
};
template <>
struct Simd<double> {
    using Vec = VecD;
    using Int = VecL;
    static constexpr int width = vector_bytes / 8;
    static constexpr int mantissa = 52, bias = 1023, terms = 13;
    static constexpr double magic = 6755399441055744.0;
    static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr double top = 709.9, bottom = -745.2;
};

// Integers. Arithmetic is done in Unsigned, which wraps around.
template <>
struct Simd<int32_t> {
    using Vec = VecI;
    using Int = VecI;
    using Unsigned = VecU;
    static constexpr int width = vector_bytes / 4;
};
template <>
struct Simd<int64_t> {
    using Vec = VecL;
    using Int = VecL;
    using Unsigned = VecQ;
    static constexpr int width = vector_bytes / 8;
};
template <>
struct Simd<uint8_t> {
    using Vec = VecB;
    using Int = VecS;
    using Unsigned = VecB;
    static constexpr int width = vector_bytes;
};
template <typename T>
inline constexpr bool is_integer = false;
template <>
inline constexpr bool is_integer<int32_t> = true;
template <>
inline constexpr bool is_integer<int64_t> = true;
template <>
inline constexpr bool is_integer<uint8_t> = true;

template <typename T>
using Vec = typename Simd<T>::Vec;

template <typename T>
FLASHSCAN_INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

template <typename T>
FLASHSCAN_INLINE void store(T* p, Vec<T> v) {
    __builtin_memcpy(p, &v, sizeof v);
}

// Stores the first n < width numbers.
template <typename T>
FLASHSCAN_INLINE void store_part(T* p, Vec<T> v, int n) {
    for (int i = 0; i < n; ++i) p[i] = v[i];
}

template <typename T>
FLASHSCAN_INLINE Vec<T> splat(T x) {
    return x - Vec<T>{};  // keeps -0, so that nothing is left of the subtraction
}

// A non-temporal store, past the caches. p is a multiple of vector_bytes. stream_fence() orders it.
FLASHSCAN_INLINE void stream(float* p, VecF v) {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, reinterpret_cast<__m512>(v));
#elif defined(__AVX2__)
    _mm256_stream_ps(p, reinterpret_cast<__m256>(v));
#elif defined(__x86_64__)
    _mm_stream_ps(p, reinterpret_cast<__m128>(v));
#else
    store(p, v);
#endif
}
FLASHSCAN_INLINE void stream(double* p, VecD v) { stream(reinterpret_cast<float*>(p), reinterpret_cast<VecF>(v)); }
// The same for half a vector; p is a multiple of its size.
FLASHSCAN_INLINE void stream(uint16_t* p, VecHalf v) {
#if defined(__AVX512F__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#elif defined(__AVX2__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(v));
#elif defined(__x86_64__)
    _mm_stream_si64(reinterpret_cast<long long*>(p), reinterpret_cast<long long>(v));
#else
    __builtin_memcpy(p, &v, sizeof v);
#endif
}

FLASHSCAN_INLINE void stream_fence() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

// p may be any address, also one that is not mapped.
FLASHSCAN_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

FLASHSCAN_INLINE VecF square_root(VecF v) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecF>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(v)));
#elif defined(__AVX2__)
    return reinterpret_cast<VecF>(_mm256_sqrt_ps(reinterpret_cast<__m256>(v)));
#elif defined(__x86_64__)
    return reinterpret_cast<VecF>(_mm_sqrt_ps(reinterpret_cast<__m128>(v)));
#elif defined(__aarch64__)
    return vsqrtq_f32(v);
#else
    for (int i = 0; i < Simd<float>::width; ++i) v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
}
FLASHSCAN_INLINE VecD square_root(VecD v) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecD>(_mm512_maskz_sqrt_pd(0xff, reinterpret_cast<__m512d>(v)));
#elif defined(__AVX2__)
    return reinterpret_cast<VecD>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(v)));
#elif defined(__x86_64__)
    return reinterpret_cast<VecD>(_mm_sqrt_pd(reinterpret_cast<__m128d>(v)));
#elif defined(__aarch64__)
    return vsqrtq_f64(v);
#else
    for (int i = 0; i < Simd<double>::width; ++i) v[i] = __builtin_sqrt(v[i]);
    return v;
#endif
}

FLASHSCAN_INLINE bool any_nan(VecF v) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(v), reinterpret_cast<__m512>(v), _CMP_UNORD_Q) != 0;
#elif defined(__AVX2__)
    const auto x = reinterpret_cast<__m256>(v);
    return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0;
#elif defined(__x86_64__)
    const auto x = reinterpret_cast<__m128>(v);
    return _mm_movemask_ps(_mm_cmpunord_ps(x, x)) != 0;
#elif defined(__aarch64__)
    return vmaxvq_u32(reinterpret_cast<VecU>(v != v)) != 0;
#else
    for (int i = 0; i < Simd<float>::width; ++i)
        if (v[i] != v[i]) return true;
    return false;
#endif
}
FLASHSCAN_INLINE bool any_nan(VecD v) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask(reinterpret_cast<__m512d>(v), reinterpret_cast<__m512d>(v), _CMP_UNORD_Q) != 0;
#elif defined(__AVX2__)
    const auto x = reinterpret_cast<__m256d>(v);
    return _mm256_movemask_pd(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)) != 0;
#elif defined(__x86_64__)
    const auto x = reinterpret_cast<__m128d>(v);
    return _mm_movemask_pd(_mm_cmpunord_pd(x, x)) != 0;
#else
    return v[0] != v[0] || v[1] != v[1];
#endif
}

template <int K, bool Mirror, typename V, int... I>
FLASHSCAN_INLINE V shift_lanes(V v, V fill, std::integer_sequence<int, I...>) {
    constexpr int width = sizeof...(I);
    if constexpr (Mirror) return __builtin_shufflevector(v, fill, (I + K < width ? I + K : width + I)...);
    return __builtin_shufflevector(v, fill, (I >= K ? I - K : width + I)...);
}

// Gives each lane the value that is K lanes earlier in walking order, or `fill` where there is none. With Mirror lanes
// are walked from the last to the first.
template <int K, bool Mirror, typename T>
FLASHSCAN_INLINE Vec<T> shift(Vec<T> v, Vec<T> fill) {
    return shift_lanes<K, Mirror>(v, fill, std::make_integer_sequence<int, Simd<T>::width>{});
}

template <int Pick, typename V, int... I>
FLASHSCAN_INLINE V pick_lanes(V v, std::integer_sequence<int, I...>) {
    // Pick: 0 to width - 1 copies that lane to all, -1 doubles even lanes, -2 odd lanes, -3 swaps neighbours.
    return __builtin_shufflevector(v, v,
                                   (Pick == -1   ? (I & ~1)
                                    : Pick == -2 ? (I | 1)
                                    : Pick == -3 ? (I ^ 1)
                                                 : Pick)...);
}

template <int Pick, typename T>
FLASHSCAN_INLINE Vec<T> pick(Vec<T> v) {
    return pick_lanes<Pick>(v, std::make_integer_sequence<int, Simd<T>::width>{});
}

// 2 * width adjacent numbers as two vectors: those at even and those at odd places.
template <typename T>
struct Two {
    Vec<T> even, odd;
};

template <int First, typename V, int... I>
FLASHSCAN_INLINE V every_second(V low, V high, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(low, high, (First + 2 * I)...);
}
template <int First, typename V, int... I>
FLASHSCAN_INLINE V interleave(V even, V odd, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(even, odd, (First + I / 2 + (I & 1) * int(sizeof...(I)))...);
}

template <typename T>
FLASHSCAN_INLINE Two<T> separate(Vec<T> low, Vec<T> high) {
    constexpr auto lanes = std::make_integer_sequence<int, Simd<T>::width>{};
    return {every_second<0>(low, high, lanes), every_second<1>(low, high, lanes)};
}
template <typename T>
FLASHSCAN_INLINE Vec<T> low_half(Two<T> v) {
    return interleave<0>(v.even, v.odd, std::make_integer_sequence<int, Simd<T>::width>{});
}
template <typename T>
FLASHSCAN_INLINE Vec<T> high_half(Two<T> v) {
    return interleave<Simd<T>::width / 2>(v.even, v.odd, std::make_integer_sequence<int, Simd<T>::width>{});
}

// Transposes: number l of vector i becomes number i of vector l. Each pass interleaves the first half of the vectors
// with the second, which moves the top bit of l to the end of i and that of i to the end of l.
template <typename T>
FLASHSCAN_INLINE void transpose(Vec<T> (&v)[size_t(Simd<T>::width)]) {
    constexpr int width = Simd<T>::width;
    for (int pass = 1; pass < width; pass *= 2) {
        Vec<T> next[size_t{width}];
#pragma GCC unroll 16
        for (int i = 0; i < width / 2; ++i) {
            const Two<T> pair{v[i], v[i + width / 2]};
            next[2 * i] = low_half(pair), next[2 * i + 1] = high_half(pair);
        }
#pragma GCC unroll 16
        for (int i = 0; i < width; ++i) v[i] = next[i];
    }
}

// parities_apart moves the numbers at even places before those at odd places; parities_together undoes that.
template <int... I>
FLASHSCAN_INLINE VecW parities_apart_lanes(VecW v, std::integer_sequence<int, I...>) {
    constexpr int half = sizeof...(I) / 2;
    return __builtin_shufflevector(v, v, (I < half ? 2 * I : 2 * (I - half) + 1)...);
}
template <int... I>
FLASHSCAN_INLINE VecW parities_together_lanes(VecW v, std::integer_sequence<int, I...>) {
    constexpr int half = sizeof...(I) / 2;
    return __builtin_shufflevector(v, v, (I / 2 + (I & 1) * half)...);
}
FLASHSCAN_INLINE VecW parities_apart(VecW v) {
    return parities_apart_lanes(v, std::make_integer_sequence<int, vector_bytes / 2>{});
}
FLASHSCAN_INLINE VecW parities_together(VecW v) {
    return parities_together_lanes(v, std::make_integer_sequence<int, vector_bytes / 2>{});
}

template <typename T>
FLASHSCAN_INLINE Vec<T> alternate(T even, T odd) {
    Vec<T> v = {};
    for (int i = 0; i < Simd<T>::width; ++i) v[i] = (i & 1) != 0 ? odd : even;
    return v;
}

// a * b + c, rounded once where the machine can. Everything that may be fused says so here: the compiler is not allowed
// to choose, since it may choose differently for whole and for partial vectors.
#if defined(__AVX512F__)
FLASHSCAN_INLINE VecF fused(VecF a, VecF b, VecF c) {
    return reinterpret_cast<VecF>(
        _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
FLASHSCAN_INLINE VecD fused(VecD a, VecD b, VecD c) {
    return reinterpret_cast<VecD>(
        _mm512_fmadd_pd(reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(c)));
}
#elif defined(__FMA__) && defined(__AVX2__)
FLASHSCAN_INLINE VecF fused(VecF a, VecF b, VecF c) {
    return reinterpret_cast<VecF>(
        _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}
FLASHSCAN_INLINE VecD fused(VecD a, VecD b, VecD c) {
    return reinterpret_cast<VecD>(
        _mm256_fmadd_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b), reinterpret_cast<__m256d>(c)));
}
#elif defined(__aarch64__)
FLASHSCAN_INLINE VecF fused(VecF a, VecF b, VecF c) { return vfmaq_f32(c, a, b); }
FLASHSCAN_INLINE VecD fused(VecD a, VecD b, VecD c) { return vfmaq_f64(c, a, b); }
#else
FLASHSCAN_INLINE VecF fused(VecF a, VecF b, VecF c) { return a * b + c; }
FLASHSCAN_INLINE VecD fused(VecD a, VecD b, VecD c) { return a * b + c; }
#endif
#if defined(__FMA__) || defined(__aarch64__)
FLASHSCAN_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FLASHSCAN_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
FLASHSCAN_INLINE float fused(float a, float b, float c) { return a * b + c; }
FLASHSCAN_INLINE double fused(double a, double b, double c) { return a * b + c; }
#endif

// Returns whether a lane of any of these is NaN or infinite: 0 times it is NaN then.
template <typename V, typename... More>
FLASHSCAN_INLINE bool any_special(V v, More... more) {
    V sum = v * 0;
    ((sum = fused(more, V{}, sum)), ...);
    return any_nan(sum);
}

template <typename T>
FLASHSCAN_INLINE Vec<T> magnitude(Vec<T> v) {
    using Int = typename Simd<T>::Int;
    return reinterpret_cast<Vec<T>>(reinterpret_cast<Int>(v) & ~reinterpret_cast<Int>(splat<T>(T(-0.0))));
}

template <typename T>
FLASHSCAN_INLINE Vec<T> minus_magnitude(Vec<T> v) {
    using Int = typename Simd<T>::Int;
    return reinterpret_cast<Vec<T>>(reinterpret_cast<Int>(v) | reinterpret_cast<Int>(splat<T>(T(-0.0))));
}

// Returns v, whose sign bit has to be 0, with the sign bit of the other.
template <typename T>
FLASHSCAN_INLINE Vec<T> with_sign_of(Vec<T> v, Vec<T> sign) {
    using Int = typename Simd<T>::Int;
    const Int bit = reinterpret_cast<Int>(splat<T>(T(-0.0)));
    return reinterpret_cast<Vec<T>>(reinterpret_cast<Int>(v) | (reinterpret_cast<Int>(sign) & bit));
}

// The factors of a complex product: a * b = real * b + imaginary * swapped(b). Conj takes the conjugate of a.
template <bool Conj, typename T>
FLASHSCAN_INLINE Vec<T> imaginary_factor(Vec<T> a) {
    return pick<-2, T>(a) * alternate<T>(Conj ? T(1) : T(-1), Conj ? T(-1) : T(1));
}

// Returns a * b, or with Complex the products of the complex numbers that neighbouring lanes hold.
template <bool Complex, bool Conj, typename T>
FLASHSCAN_INLINE Vec<T> multiply(Vec<T> a, Vec<T> b) {
    if constexpr (!Complex) return a * b;
    return fused(pick<-1, T>(a), b, imaginary_factor<Conj, T>(a) * pick<-3, T>(b));
}

template <bool Complex, bool Conj, typename T>
FLASHSCAN_INLINE Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
    if constexpr (!Complex) return fused(a, b, c);
    return fused(pick<-1, T>(a), b, fused(imaginary_factor<Conj, T>(a), pick<-3, T>(b), c));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
