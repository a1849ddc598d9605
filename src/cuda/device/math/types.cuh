// SPDX-License-Identifier: Apache-2.0
// Types of stored elements and of the numbers that kernels compute with.
//
// Element<X>: how a stored element becomes the number that it is computed with (f32 for 16-bit data) and back.
// Types<X, G>: the pair of data and gate, and the affine map h -> A h + X that summarises a run of steps.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/ptx/quick_functions.cuh"
#include "math/linear.h"

namespace flashscan::cuda {

// Replaces a half of a word that holds two 16-bit elements: `half` 0 is the lower one, 1 the upper one.
__device__ __forceinline__ uint32_t with_half(uint32_t word, uint16_t bits, int half) {
    return half == 0 ? __byte_perm(word, bits, 0x3254) : __byte_perm(word, bits, 0x5410);
}

template <typename T>
struct Element {
    using Wide = T;
    static __device__ __forceinline__ T widen(T x) { return x; }
    static __device__ __forceinline__ T narrow(T x) { return x; }
};
template <>
struct Element<__nv_bfloat16> {
    using Wide = float;
    static __device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
    static __device__ __forceinline__ __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
    static __device__ __forceinline__ float widen_half(uint32_t word, int half) {
        return __uint_as_float(half == 0 ? word << 16 : word & 0xffff0000U);
    }
    static __device__ __forceinline__ uint32_t narrow_half(uint32_t word, float x, int half) {
        return with_half(word, __bfloat16_as_ushort(narrow(x)), half);
    }
    static __device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
};
template <>
struct Element<__half> {
    using Wide = float;
    static __device__ __forceinline__ float widen(__half x) { return __half2float(x); }
    static __device__ __forceinline__ __half narrow(float x) { return __float2half_rn(x); }
    static __device__ __forceinline__ float widen_half(uint32_t word, int half) {
        return __half2float(__ushort_as_half(static_cast<uint16_t>(half == 0 ? word : word >> 16)));
    }
    static __device__ __forceinline__ uint32_t narrow_half(uint32_t word, float x, int half) {
        return with_half(word, __half_as_ushort(narrow(x)), half);
    }
    static __device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
};

__device__ __forceinline__ float multiply_add(float a, float h, float x) { return fmaf(a, h, x); }
__device__ __forceinline__ double multiply_add(double a, double h, double x) { return fma(a, h, x); }
template <typename T>
__device__ __forceinline__ Complex<T> multiply_add(Complex<T> a, Complex<T> h, Complex<T> x) {
    return {multiply_add(-a.im, h.im, multiply_add(a.re, h.re, x.re)),
            multiply_add(a.im, h.re, multiply_add(a.re, h.im, x.im))};
}
template <typename T>
__device__ __forceinline__ Complex<T> multiply_add(T a, Complex<T> h, Complex<T> x) {
    return {multiply_add(a, h.re, x.re), multiply_add(a, h.im, x.im)};
}

// A product. That of complex numbers names its multiply-adds, so that its bits are the same wherever it stands.
template <typename A, typename B>
__device__ __forceinline__ auto multiply(A a, B b) {
    return a * b;
}
template <typename T>
__device__ __forceinline__ Complex<T> multiply(Complex<T> a, Complex<T> b) {
    return {multiply_add(-a.im, b.im, a.re * b.re), multiply_add(a.im, b.re, a.re * b.im)};
}

__device__ __forceinline__ float one(float) { return 1.0F; }
__device__ __forceinline__ double one(double) { return 1.0; }
template <typename T>
__device__ __forceinline__ Complex<T> one(Complex<T>) {
    return {T(1), T(0)};
}
__device__ __forceinline__ bool is_zero(float x) { return x == 0.0F; }
__device__ __forceinline__ bool is_zero(double x) { return x == 0.0; }
template <typename T>
__device__ __forceinline__ bool is_zero(Complex<T> x) {
    return x.re == T(0) && x.im == T(0);
}

__device__ __forceinline__ float shuffle(float x, int lane) { return __shfl_sync(0xffffffffU, x, lane); }
__device__ __forceinline__ double shuffle(double x, int lane) { return __shfl_sync(0xffffffffU, x, lane); }
__device__ __forceinline__ int32_t shuffle(int32_t x, int lane) { return __shfl_sync(0xffffffffU, x, lane); }
__device__ __forceinline__ int64_t shuffle(int64_t x, int lane) { return __shfl_sync(0xffffffffU, x, lane); }
__device__ __forceinline__ uint8_t shuffle(uint8_t x, int lane) {
    return static_cast<uint8_t>(__shfl_sync(0xffffffffU, static_cast<uint32_t>(x), lane));
}
template <typename T>
__device__ __forceinline__ Complex<T> shuffle(Complex<T> x, int lane) {
    return {shuffle(x.re, lane), shuffle(x.im, lane)};
}

enum GateFormId {
    gate_value = 0,
    gate_log = 1,
    gate_logit = 2
};

// The functions of log and logit gates of other types than float are long and are not inlined.
template <typename W>
__device__ __noinline__ W long_gate(int form, W g) {
    return form == gate_log ? exp_of(g) : sigmoid(g);
}
template <typename W>
__device__ __noinline__ W long_sigmoid(W g) {
    return sigmoid(g);
}

constexpr float log2_e = 1.442695041F;  // rounding g * log2_e adds an error of 1.3 |g| units of roundoff
// exp(-g), but at most 2^126, so that it and its reciprocal are finite; NaN for NaN.
__device__ __forceinline__ float exp_negative(float g) { return ptx::quick_exp2(ptx::least_of(g * -log2_e, 126.0F)); }

// The value a of a log or logit gate.
template <typename W>
__device__ __forceinline__ W gate_of(int form, W g) {
    return long_gate(form, g);
}
__device__ __forceinline__ float gate_of(int form, float g) {
    return form == gate_log ? ptx::quick_exp2(g * log2_e) : ptx::quick_reciprocal(1.0F + exp_negative(g));
}

// The derivative da/dg of a log or logit gate whose value is `a`. For logit gates it is a (1 - a), where 1 - a is
// computed as sigmoid(-g), which loses no digits.
template <typename W>
__device__ __forceinline__ W gate_derivative(int form, W g, W a) {
    if (form == gate_log) return a;
    return a * long_sigmoid(negative(g));
}
__device__ __forceinline__ float gate_derivative(int form, float g, float a) {
    return form == gate_log ? a : a * (exp_negative(g) * a);
}

// A logit gate g as sigmoid(-|g|) with the sign of -g: from this one number follow, without loss of digits, its value a
// and the derivative a (1 - a).
template <typename W>
__device__ __noinline__ W held_logit(W g) {
    return copysign(sigmoid(-fabs(g)), -g);
}
__device__ __forceinline__ float held_logit(float g) {
    const float e = ptx::quick_exp2(fabsf(g) * -log2_e);
    return copysignf(e * ptx::quick_reciprocal(1.0F + e), -g);
}
// The value of a log gate, held as it is, or of a logit gate that held_logit has made.
template <typename W>
__device__ __forceinline__ W value_of_held(W held) {
    return signbit(held) ? 1 + held : held;
}
template <typename W>
__device__ __forceinline__ W derivative_of_held(int form, W held) {
    const W a = fabs(held);
    return form == gate_log ? a : multiply_add(-a, a, a);
}

// The gate, in the form that gates are given in, whose value is 1.
template <typename W>
__device__ __forceinline__ W open_gate(int form) {
    W g{};
    if (form == gate_log) return g;
    if constexpr (std::is_floating_point_v<W>)
        g = form == gate_value ? W(1) : W(INFINITY);
    else
        g.re = form == gate_value ? 1 : INFINITY;
    return g;
}

template <typename X_, typename G_>
struct Types {
    using X = X_;
    using G = G_;
    using Wide = typename Element<X>::Wide;
    using GateWide = typename Element<G>::Wide;
    static constexpr bool complex_gate = !std::is_floating_point_v<GateWide>;

    // The map h -> a h + x, or h -> x where `cut`: a reset or the begin of a sequence lies in the run. a = 0 would not
    // do for that, as 0 times NaN or infinity is NaN.
    struct Map {
        GateWide a;
        Wide x;
        bool cut;
    };
    static __device__ __forceinline__ Map identity() { return {one(GateWide{}), Wide{}, false}; }
    // A carry of zero gives exactly x, even where the product of the gates has overflowed.
    static __device__ __forceinline__ Wide apply(const Map& m, Wide h) {
        if constexpr (complex_gate)
            if (is_identity(m)) return h;
        return m.cut || is_zero(h) ? m.x : multiply_add(m.a, h, m.x);
    }
    // Complex identities are recognised, since complex arithmetic does not leave h alone: (1 + 0i) inf is NaN.
    static __device__ __forceinline__ bool is_identity(const Map& m) {
        return !m.cut && is_zero(m.x) && m.a.re == one(m.a).re && m.a.im == 0;
    }
    // The map that applies `early` first and `late` second.
    static __device__ __forceinline__ Map compose(const Map& early, const Map& late) {
        return {late.cut ? late.a : multiply(late.a, early.a), apply(late, early.x), late.cut || early.cut};
    }
    static __device__ __forceinline__ Map shuffle_map(const Map& m, int lane) {
        return {shuffle(m.a, lane), shuffle(m.x, lane), __shfl_sync(0xffffffffU, static_cast<int>(m.cut), lane) != 0};
    }
};

// Maps that are never cut, so that shuffles leave the mark out.
template <typename X, typename G>
struct UncutTypes : Types<X, G> {
    using typename Types<X, G>::Map;
    static __device__ __forceinline__ Map shuffle_map(const Map& m, int lane) {
        return {shuffle(m.a, lane), shuffle(m.x, lane), false};
    }
};

}  // namespace flashscan::cuda
