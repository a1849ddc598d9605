// SPDX-License-Identifier: Apache-2.0
// Conversions of numbers between the type that memory has (bf16, f16, f32, f64, integers) and the type of the
// arithmetic T (float, double or the integer itself): of one number, of a vector, of a row of adjacent numbers, and of
// a rectangle.
#pragma once

#include "cpu/kernels/linear.h"
#include "cpu/kernels/simd.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

FLASHSCAN_INLINE int64_t bytes_of(Number number) {
    switch (number) {
    case Number::u8: return 1;
    case Number::bf16:
    case Number::f16: return 2;
    case Number::f32:
    case Number::i32: return 4;
    case Number::f64:
    case Number::i64: return 8;
    }
    return 0;
}

template <typename T>
FLASHSCAN_INLINE bool same_number(Number number) {
    return number == (sizeof(T) == 8 ? Number::f64 : Number::f32);
}

template <typename P>
FLASHSCAN_INLINE void exchange(P*& a, P*& b) {
    P* kept = a;
    a = b;
    b = kept;
}

// A form has the type that a number has in memory, and the conversions to (get) and from (put) the type of the
// arithmetic.
struct AsF32 {
    using Type = float;
    static constexpr Number number = Number::f32;
    static FLASHSCAN_INLINE float get(float x) { return x; }
    static FLASHSCAN_INLINE float put(float x) { return x; }
};
struct AsF64 {
    using Type = double;
    static constexpr Number number = Number::f64;
    static FLASHSCAN_INLINE double get(double x) { return x; }
    static FLASHSCAN_INLINE double put(double x) { return x; }
};
struct AsBf16 {
    using Type = Bf16;
    static constexpr Number number = Number::bf16;
    static FLASHSCAN_INLINE float get(Bf16 x) { return to_float(x); }
    static FLASHSCAN_INLINE Bf16 put(float x) { return to_bf16(x); }
};
struct AsF16 {
    using Type = F16;
    static constexpr Number number = Number::f16;
    static FLASHSCAN_INLINE float get(F16 x) { return to_float(x); }
    static FLASHSCAN_INLINE F16 put(float x) { return to_f16(x); }
};

// Integers are computed with in the type that memory has.
template <typename T>
struct AsInteger {
    using Type = T;
    static FLASHSCAN_INLINE T get(T x) { return x; }
    static FLASHSCAN_INLINE T put(T x) { return x; }
};

// Calls use(form) with the memory form of `number`; T is the type of the arithmetic.
template <typename T, typename Use>
FLASHSCAN_INLINE void with_number(Number number, Use use) {
    if constexpr (is_integer<T>) {
        use(AsInteger<T>{});
    } else if constexpr (sizeof(T) == 8) {
        use(AsF64{});
    } else {
        switch (number) {
        case Number::bf16: use(AsBf16{}); return;
        case Number::f16: use(AsF16{}); return;
        case Number::f32: use(AsF32{}); return;
        case Number::f64:
        case Number::i32:
        case Number::i64:
        case Number::u8: __builtin_unreachable();  // are computed with in other types
        }
    }
}

// Widens 16-bit numbers to 32-bit words, and narrows words below 2^16. Intrinsics are used because GCC 12 splits the
// builtin conversion into halves of vectors or into single numbers.
FLASHSCAN_INLINE VecU words_of(VecHalf half) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecU>(_mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(half)));
#elif defined(__AVX2__)
    return reinterpret_cast<VecU>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(half)));
#elif defined(__aarch64__)
    return vmovl_u16(half);
#else
    return __builtin_convertvector(half, VecU);
#endif
}
FLASHSCAN_INLINE VecHalf low_halves(VecU words) {
#if defined(__AVX512F__)
    return reinterpret_cast<VecHalf>(_mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#elif defined(__AVX2__)
    const auto packed = _mm256_packus_epi32(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(words));
    return reinterpret_cast<VecHalf>(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#elif defined(__aarch64__)
    return vmovn_u32(words);
#else
    return __builtin_convertvector(words, VecHalf);
#endif
}

#if defined(__AVX512F__)
// The masked intrinsics are used because GCC 12 warns about an uninitialised variable inside the plain ones.
FLASHSCAN_INLINE VecF widen_f16(VecHalf half) {
    return reinterpret_cast<VecF>(_mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(half)));
}
FLASHSCAN_INLINE VecHalf narrow_f16(VecF v) {
    return reinterpret_cast<VecHalf>(
        _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__F16C__)
FLASHSCAN_INLINE VecF widen_f16(VecHalf half) {
    return reinterpret_cast<VecF>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(half)));
}
FLASHSCAN_INLINE VecHalf narrow_f16(VecF v) {
    return reinterpret_cast<VecHalf>(
        _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
FLASHSCAN_INLINE VecF widen_f16(VecHalf half) {
#if defined(__aarch64__)
    return vcvt_f32_f16(reinterpret_cast<float16x4_t>(half));
#else
    VecF v = {};
    for (int i = 0; i < Simd<float>::width; ++i) v[i] = to_float(F16{half[i]});
    return v;
#endif
}
// Gives the same bits as to_f16, whatever the rounding mode is.
FLASHSCAN_INLINE VecHalf narrow_f16(VecF v) {
    const VecU bits = reinterpret_cast<VecU>(v), size = bits & 0x7fffffffU;
    const VecU normal = (size - 0x38000000U + 0xfffU + ((size >> 13) & 1U)) >> 13;
    const VecF small = reinterpret_cast<VecF>(size < 0x38800000U ? size : VecU{});
    const VecU subnormal = reinterpret_cast<VecU>(small + 0.5F) - 0x3f000000U;
    VecU half = size < 0x38800000U ? subnormal : normal;
    half = size < 0x477ff000U ? half : VecU{} + 0x7c00U;
    half = size > 0x7f800000U ? VecU{} + 0x7e00U : half;
    return low_halves(half | ((bits >> 16) & 0x8000U));
}
#endif

// Rounds as to_bf16 does. The result is in the upper half of each word; the lower half holds anything.
FLASHSCAN_INLINE VecU round_to_bf16(VecF v) {
    const VecU bits = reinterpret_cast<VecU>(v);
    const VecU rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    return v != v ? bits | 0x400000U : rounded;
}

FLASHSCAN_INLINE VecF widened(VecHalf half, Bf16) { return reinterpret_cast<VecF>(words_of(half) << 16); }
FLASHSCAN_INLINE VecF widened(VecHalf half, F16) { return widen_f16(half); }
FLASHSCAN_INLINE VecHalf narrowed(VecF v, Bf16) { return low_halves(round_to_bf16(v) >> 16); }
FLASHSCAN_INLINE VecHalf narrowed(VecF v, F16) { return narrow_f16(v); }

// widen reads a vector of the arithmetic from memory and narrow writes one; narrow_streamed writes with stream().
FLASHSCAN_INLINE VecF widen(const float* p) { return load(p); }
FLASHSCAN_INLINE VecD widen(const double* p) { return load(p); }
FLASHSCAN_INLINE void narrow(float* p, VecF v) { store(p, v); }
FLASHSCAN_INLINE void narrow(double* p, VecD v) { store(p, v); }
FLASHSCAN_INLINE void narrow_streamed(float* p, VecF v) { stream(p, v); }
FLASHSCAN_INLINE void narrow_streamed(double* p, VecD v) { stream(p, v); }
template <typename T>
requires is_integer<T> FLASHSCAN_INLINE Vec<T> widen(const T* p) { return load(p); }
template <typename T>
requires is_integer<T> FLASHSCAN_INLINE void narrow(T* p, Vec<T> v) { store<T>(p, v); }
template <typename T>
requires is_integer<T> FLASHSCAN_INLINE void narrow_streamed(T* p, Vec<T> v) {
    stream(reinterpret_cast<float*>(p), reinterpret_cast<VecF>(v));
}
template <typename Half>
FLASHSCAN_INLINE VecF widen(const Half* p) {
    VecHalf half;
    __builtin_memcpy(&half, p, sizeof half);
    return widened(half, Half{});
}
template <typename Half>
FLASHSCAN_INLINE void narrow(Half* p, VecF v) {
    const VecHalf half = narrowed(v, Half{});
    __builtin_memcpy(p, &half, sizeof half);
}
template <typename Half>
FLASHSCAN_INLINE void narrow_streamed(Half* p, VecF v) {
    stream(&p->bits, narrowed(v, Half{}));
}

// widen_two reads 2 * width adjacent numbers into two vectors: those at even and those at odd places. In bf16 that
// takes a shift and a mask. narrow_two writes them; `streamed` writes with stream().
FLASHSCAN_INLINE Two<float> widen_two(const float* p) { return separate<float>(load(p), load(p + Simd<float>::width)); }
FLASHSCAN_INLINE Two<double> widen_two(const double* p) {
    return separate<double>(load(p), load(p + Simd<double>::width));
}
FLASHSCAN_INLINE Two<float> widen_two(const Bf16* p) {
    VecU words;
    __builtin_memcpy(&words, p, sizeof words);
    return {reinterpret_cast<VecF>(words << 16), reinterpret_cast<VecF>(words & 0xffff0000U)};
}
FLASHSCAN_INLINE Two<float> widen_two(const F16* p) {
    VecW halves;
    __builtin_memcpy(&halves, p, sizeof halves);
    VecHalf parts[2];
    const VecW apart = parities_apart(halves);
    __builtin_memcpy(parts, &apart, sizeof parts);
    return {widen_f16(parts[0]), widen_f16(parts[1])};
}

template <typename Words>
FLASHSCAN_INLINE void put_words(bool streamed, void* p, Words words) {
    if (streamed)
        stream(static_cast<float*>(p), reinterpret_cast<VecF>(words));
    else
        __builtin_memcpy(p, &words, sizeof words);
}
template <typename T>
FLASHSCAN_INLINE void narrow_two(bool streamed, T* p, Two<T> v) {
    put_words(streamed, p, low_half(v));
    put_words(streamed, p + Simd<T>::width, high_half(v));
}
FLASHSCAN_INLINE void narrow_two(bool streamed, Bf16* p, Two<float> v) {
    put_words(streamed, p, (round_to_bf16(v.even) >> 16) | (round_to_bf16(v.odd) & 0xffff0000U));
}
FLASHSCAN_INLINE void narrow_two(bool streamed, F16* p, Two<float> v) {
    const VecHalf parts[2] = {narrow_f16(v.even), narrow_f16(v.odd)};
    VecW apart;
    __builtin_memcpy(&apart, parts, sizeof apart);
    put_words(streamed, p, parities_together(apart));
}

// widen_row reads a row of n adjacent numbers, and prefetches those that lie `ahead` numbers further on. narrow_row
// writes a row; `streamed` writes whole vectors with non-temporal stores.
template <typename T, typename Form>
FLASHSCAN_INLINE void widen_row(Form, T* to, const typename Form::Type* from, int64_t n, int64_t ahead) {
    int64_t i = 0;
    for (; i + Simd<T>::width <= n; i += Simd<T>::width) {
        prefetch(from + i + ahead);
        store<T>(to + i, widen(from + i));
    }
    for (; i < n; ++i) to[i] = Form::get(from[i]);
}
template <typename T, typename Form>
FLASHSCAN_INLINE void narrow_row(Form, typename Form::Type* to, const T* from, int64_t n, bool streamed) {
    constexpr uintptr_t bytes = sizeof(typename Form::Type) * Simd<T>::width;
    int64_t i = 0;
    if (streamed) {
        for (; i < n && reinterpret_cast<uintptr_t>(to + i) % bytes != 0; ++i) to[i] = Form::put(from[i]);
        for (; i + Simd<T>::width <= n; i += Simd<T>::width) narrow_streamed(to + i, load(from + i));
    }
    for (; i + Simd<T>::width <= n; i += Simd<T>::width) narrow(to + i, load(from + i));
    for (; i < n; ++i) to[i] = Form::put(from[i]);
}

// Copies n adjacent numbers to any address, whole vectors of them with non-temporal stores.
template <typename M>
FLASHSCAN_INLINE void stream_row(M* to, const M* from, int64_t n) {
    constexpr int64_t width = vector_bytes / int64_t(sizeof(M));
    const int64_t head = int64_t(-reinterpret_cast<uintptr_t>(to) % vector_bytes / sizeof(M));
    int64_t i = head < n ? head : n;
    __builtin_memcpy(to, from, size_t(i) * sizeof(M));
    for (; i + width <= n; i += width) {
        VecF v;
        __builtin_memcpy(&v, from + i, sizeof v);
        stream(reinterpret_cast<float*>(to + i), v);
    }
    __builtin_memcpy(to + i, from + i, size_t(n - i) * sizeof(M));
}

// A rectangle of `outer` x `inner` elements of `parts` numbers between memory (strides in numbers) and a panel whose
// outer rows are `pitch` apart and whose inner elements are adjacent.
struct Rectangle {
    int64_t outer, outer_stride, inner, inner_stride;
    int parts;
    bool adjacent() const { return inner_stride == parts || inner == 1; }
};

// Calls use(place in the panel, place in memory) for each number. The axis with the smaller stride in memory is the
// inner loop.
template <typename Use>
FLASHSCAN_INLINE void for_numbers(const Rectangle& r, int64_t pitch, Use use) {
    const int64_t step = r.outer_stride < 0 ? -r.outer_stride : r.outer_stride;
    const bool outer_first = step >= r.inner_stride;
    const int64_t slow = outer_first ? r.outer : r.inner, fast = outer_first ? r.inner : r.outer;
    const int64_t slow_stride = outer_first ? r.outer_stride : r.inner_stride;
    const int64_t fast_stride = outer_first ? r.inner_stride : r.outer_stride;
    const int64_t slow_pitch = outer_first ? pitch : r.parts, fast_pitch = outer_first ? r.parts : pitch;
    for (int64_t s = 0; s < slow; ++s)
        for (int64_t f = 0; f < fast; ++f)
            for (int k = 0; k < r.parts; ++k)
                use(s * slow_pitch + f * fast_pitch + k, s * slow_stride + f * fast_stride + k);
}

template <typename T>
void load_panel(T* panel, int64_t pitch, Number number, const char* from, const Rectangle& r) {
    with_number<T>(number, [&](auto form) {
        const auto* source = reinterpret_cast<const typename decltype(form)::Type*>(from);
        if (!r.adjacent()) {
            for_numbers(r, pitch, [&](int64_t to, int64_t at) { panel[to] = form.get(source[at]); });
            return;
        }
        const int64_t numbers = r.inner * r.parts;
        const int64_t row_bytes = numbers * bytes_of(number);
        const int64_t ahead = r.outer == 1 ? 2048 / bytes_of(number) : (1 + 4096 / row_bytes) * r.outer_stride;
        for (int64_t o = 0; o < r.outer; ++o)
            widen_row<T>(form, panel + o * pitch, source + o * r.outer_stride, numbers, ahead);
    });
}

// With `streamed`, adjacent numbers are written with non-temporal stores, which stream_fence() orders.
template <typename T>
void store_panel(const T* panel, int64_t pitch, Number number, char* to, const Rectangle& r, bool streamed = false) {
    with_number<T>(number, [&](auto form) {
        auto* target = reinterpret_cast<typename decltype(form)::Type*>(to);
        if (!r.adjacent()) {
            for_numbers(r, pitch, [&](int64_t from, int64_t at) { target[at] = form.put(panel[from]); });
            return;
        }
        for (int64_t o = 0; o < r.outer; ++o)
            narrow_row<T>(form, target + o * r.outer_stride, panel + o * pitch, r.inner * r.parts, streamed);
    });
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
