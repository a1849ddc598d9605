// SPDX-License-Identifier: Apache-2.0
// The parts of a gated layer, chosen at run time: each function applies one part to all elements of a thread, so that the
// choice is made once for them; and the map of a step that they make together.
#pragma once

#include <type_traits>

#include "cuda/device/math/types.cuh"
#include "cuda/gated/params.h"
#include "math/gated.h"

namespace flashscan::cuda {

// f32 whose functions take few instructions; their errors are those that a multiplication with log2(e), an exp2 and a
// reciprocal have, a few units of roundoff relative to the value. `Flushed`: numbers below the normal ones are zeros, which
// slopes, quotients of such numbers, cannot take.
template <bool Flushed>
struct Short {
    float value;
    Short() = default;
    __device__ __forceinline__ Short(float x) : value(x) {}  // NOLINT: numbers convert

    friend __device__ __forceinline__ Short operator+(Short a, Short b) { return a.value + b.value; }
    friend __device__ __forceinline__ Short operator-(Short a, Short b) { return a.value - b.value; }
    friend __device__ __forceinline__ Short operator*(Short a, Short b) { return a.value * b.value; }
    friend __device__ __forceinline__ Short operator-(Short a) { return -a.value; }
    friend __device__ __forceinline__ bool operator<(Short a, Short b) { return a.value < b.value; }
    friend __device__ __forceinline__ bool operator>(Short a, Short b) { return a.value > b.value; }

    friend __device__ __forceinline__ Short exp_of(Short x) {
        float y;
        if constexpr (Flushed)
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x.value * log2_e));
        else
            asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x.value * log2_e));
        return y;
    }
    friend __device__ __forceinline__ Short reciprocal(Short x) { return ptx::quick_reciprocal(x.value); }
    friend __device__ __forceinline__ Short sqrt_of(Short x) {
        float y;
        if constexpr (Flushed)
            asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x.value));
        else
            asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x.value));
        return y;
    }
    // Near 0 the series of exp(x) - 1, whose first term that is left out is 1e-8 of it.
    friend __device__ __forceinline__ ExpAndRest<Short> exp_and_rest(Short x) {
        const float exp = exp_of(x).value;
        float series = 1.0F / 40320;
        for (const float term : {1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1.0F})
            series = fmaf(series, x.value, term);
        return {exp, fabsf(x.value) < 0.5F ? -series * x.value : 1.0F - exp};
    }
    // With e = exp(-2 |x|): (1 - e) / (1 + e).
    friend __device__ __forceinline__ Short tanh_of(Short x) {
        const ExpAndRest<Short> e = exp_and_rest(Short(-2.0F * fabsf(x.value)));
        return copysignf(e.rest.value * ptx::quick_reciprocal(1.0F + e.exp.value), x.value);
    }
    friend __device__ __forceinline__ float number_of(Short x) { return x.value; }
};

// What formulas are computed with.
template <typename R, bool Flushed>
using Formula = std::conditional_t<std::is_same_v<R, float>, Short<Flushed>, R>;
__device__ __forceinline__ double number_of(double x) { return x; }

template <auto value>
using Constant = std::integral_constant<decltype(value), value>;

template <typename F>
__device__ __forceinline__ void with_decay(int32_t decay, F f) {
    switch (static_cast<Decay>(decay)) {
    case Decay::value: return f(Constant<Decay::value>{});
    case Decay::exp: return f(Constant<Decay::exp>{});
    case Decay::sigmoid: return f(Constant<Decay::sigmoid>{});
    case Decay::one_minus_sigmoid: return f(Constant<Decay::one_minus_sigmoid>{});
    case Decay::lower_bound: return f(Constant<Decay::lower_bound>{});
    case Decay::softplus: return f(Constant<Decay::softplus>{});
    case Decay::ratio: return f(Constant<Decay::ratio>{});
    }
}
template <typename F>
__device__ __forceinline__ void with_scale(int32_t scale, F f) {
    switch (static_cast<Scale>(scale)) {
    case Scale::one: return f(Constant<Scale::one>{});
    case Scale::one_minus: return f(Constant<Scale::one_minus>{});
    case Scale::sqrt: return f(Constant<Scale::sqrt>{});
    }
}
template <typename F>
__device__ __forceinline__ void with_activation(int32_t activation, F f) {
    switch (static_cast<Activation>(activation)) {
    case Activation::none: return f(Constant<Activation::none>{});
    case Activation::tanh: return f(Constant<Activation::tanh>{});
    case Activation::silu: return f(Constant<Activation::silu>{});
    case Activation::positive: return f(Constant<Activation::positive>{});
    }
}
template <typename F>
__device__ __forceinline__ void with_epilogue(int32_t epilogue, F f) {
    switch (static_cast<Epilogue>(epilogue)) {
    case Epilogue::none: return f(Constant<Epilogue::none>{});
    case Epilogue::sigmoid: return f(Constant<Epilogue::sigmoid>{});
    case Epilogue::silu: return f(Constant<Epilogue::silu>{});
    case Epilogue::tanh_sigmoid: return f(Constant<Epilogue::tanh_sigmoid>{});
    }
}

// The maps h -> a h + b of steps, b without the state that enters a sequence. BIAS is part of `gate`; `rate(i)` is that of
// an element's channel, `is_open(i)` tells whether its m is 1.
template <typename F, typename R, int N, typename Rate, typename IsOpen>
__device__ __forceinline__ void make_maps(const GatedParams& p, const R (&gate)[N], const R (&second)[N],
                                          const R (&input)[N], const R (&input_gate)[N], Rate rate, IsOpen is_open,
                                          R (&a)[N], R (&b)[N]) {
    R m[N];
    with_decay(p.decay, [&](auto kind) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const auto d = gated::decayed<kind.value>(F(gate[i]), F(second[i]), F(rate(i)));
            a[i] = number_of(d.a);
            m[i] = number_of(d.rest);
        }
    });
    with_scale(p.scale, [&](auto kind) {
#pragma unroll
        for (int i = 0; i < N; ++i) m[i] = is_open(i) ? R(1) : number_of(gated::scaled<kind.value>(F(a[i]), F(m[i])));
    });
    with_activation(p.activation, [&](auto kind) {
#pragma unroll
        for (int i = 0; i < N; ++i) b[i] = m[i] * number_of(gated::activated<kind.value>(F(input[i])).value);
    });
    if (p.input_gating != static_cast<int>(InputGating::none)) {
#pragma unroll
        for (int i = 0; i < N; ++i) b[i] = b[i] * number_of(gated::sigmoids(F(input_gate[i])).open);
    }
}

// From h to OUTPUT.
template <typename F, typename R, int N>
__device__ __forceinline__ void apply_epilogue(const GatedParams& p, const R (&output_gate)[N], R (&h)[N]) {
    with_epilogue(p.epilogue, [&](auto kind) {
#pragma unroll
        for (int i = 0; i < N; ++i) h[i] = number_of(gated::epilogued<kind.value>(F(h[i]), F(output_gate[i])).y);
    });
}

}  // namespace flashscan::cuda
