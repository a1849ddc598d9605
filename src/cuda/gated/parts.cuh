// SPDX-License-Identifier: Apache-2.0
// The parts of a gated layer, known at compile time or chosen at run time, and the maps of steps that they give
// together. A step has V neighbouring channels, so that a choice at run time is made once for all of them.
#pragma once

#include <type_traits>

#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/quick_functions.cuh"
#include "cuda/gated/params.h"
#include "math/gated.h"

namespace flashscan::cuda {

// 1 - exp(x) for x <= 0, where `exp` is exp(x). Near 0 it is a polynomial (minimax, with a relative error of 1e-7).
__device__ __forceinline__ float rest_of(float x, float exp) {
    float sum = 0.0013888819F;
    for (const float term : {0.0084076827F, 0.0416687004F, 0.1666597427F, 0.4999998314F, 1.0F})
        sum = fmaf(sum, x, term);
    return fabsf(x) < 0.5F ? -sum * x : 1.0F - exp;
}

// `one`, `gate` and `second` are 1, exp(-g) and exp(-second), divided by the greatest of the three; `scale` is
// 1 / (2 one + gate + second).
struct RatioPowers {
    float one, gate, second, scale;
};
__device__ __forceinline__ RatioPowers ratio_powers(float g, float second) {
    const float x = ptx::least_of(g * -log2_e, 0x1p100F), y = ptx::least_of(second * -log2_e, 0x1p100F);
    const float most = ptx::greatest_of(ptx::greatest_of(x, y), 0.0F), one = ptx::quick_exp2(-most);
    const float of_gate = ptx::quick_exp2(x - most), of_second = ptx::quick_exp2(y - most);
    return {one, of_gate, of_second, ptx::quick_reciprocal((one + of_second) + (one + of_gate))};
}

// f32 with fast functions, whose errors are those of a multiplication by log2(e), an exp2 and a reciprocal: a few units
// of roundoff relative to the value. Exponentials below 2^-126 are zeros.
// Flushed  Square roots of subnormal numbers are zeros too. It must be false where slopes divide by such roots.
// Held     The sigmoid s(g) is never below 2^-126, as if g ended at -87. It must be false where the square root of a
//          sigmoid is taken, which makes tiny numbers large enough to matter.
template <bool Flushed, bool Held>
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

    friend __device__ __forceinline__ Short exp_of(Short x) { return ptx::quick_exp2(x.value * log2_e); }
    // If not held, the exponential of -|g| is computed 2^64 times too large, so that it stays normal, and is then
    // scaled back.
    friend __device__ __forceinline__ gated::Sigmoids<Short> sigmoids(Short g) {
        if constexpr (Held) {
            const float e = exp_negative(g.value), open = ptx::quick_reciprocal(1.0F + e);
            return {open, e * open};
        } else {
            const float e = ptx::quick_exp2(fmaf(fabsf(g.value), -log2_e, 64.0F)) * 0x1p-64F;
            const float large = ptx::quick_reciprocal(1.0F + e), small = e * large;
            return {g.value < 0.0F ? small : large, g.value < 0.0F ? large : small};
        }
    }
    friend __device__ __forceinline__ Short open_of(Short g) {
        if constexpr (!Held) return sigmoids(g).open;
        return ptx::quick_reciprocal(1.0F + ptx::quick_exp2(g.value * -log2_e));
    }
    friend __device__ __forceinline__ Short reciprocal(Short x) { return ptx::quick_reciprocal(x.value); }
    // For numbers of up to 2^63. They are scaled by 2^64 where subnormal numbers count.
    friend __device__ __forceinline__ Short sqrt_of(Short x) {
        float y;
        asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(Flushed ? x.value : x.value * 0x1p64F));
        return Flushed ? y : y * 0x1p-32F;
    }
    friend __device__ __forceinline__ ExpAndRest<Short> exp_and_rest(Short x) {
        const float exp = ptx::quick_exp2(x.value * log2_e);
        return {exp, rest_of(x.value, exp)};
    }
    // |tanh(x)| = (1 - e) / (1 + e) with e = exp(-2 |x|).
    friend __device__ __forceinline__ Short tanh_of(Short x) {
        const ExpAndRest<Short> e = exp_and_rest(Short(-2.0F * fabsf(x.value)));
        return copysignf(e.rest.value * ptx::quick_reciprocal(1.0F + e.exp.value), x.value);
    }
    friend __device__ __forceinline__ gated::Decayed<Short> ratio_of(Short g, Short second) {
        const RatioPowers of = ratio_powers(g.value, second.value);
        const float a = (of.one + of.second) * of.scale, rest = (of.one + of.gate) * of.scale;
        return {a, rest, a * (of.gate * of.scale), -(rest * (of.second * of.scale)), 0.0F};
    }
    friend __device__ __forceinline__ float number_of(Short x) { return x.value; }
};

// GatedSlopes are what backward needs of a step's decay a and scale m: m, dm/da, and da by the gate, by SECOND_GATE and
// by the channel's rate, which are `common` times `gate`, `second` and `rate`.
template <typename R>
struct GatedSlopes {
    R m, scale_slope, common, gate, second, rate;
};
// KeptDecay<kind> is what backward of a named layer keeps of a step from the pass that needs a to the one that needs
// slopes, because it takes longer to compute than a. `take` computes it and returns a. In `slopes`, `limit` is the
// largest 1 / m that is passed on, and `unscaled` tells that m is 1. Otherwise m is 1 - a, with softplus sqrt(1 - a^2).
template <Decay kind>
struct KeptDecay {};
template <bool opens>
struct KeptSigmoid {
    float rest;  // 1 - a
    __device__ __forceinline__ float take(float g, float, float) {
        const auto s = sigmoids(Short<true, true>(g));
        rest = number_of(opens ? s.shut : s.open);
        return number_of(opens ? s.open : s.shut);
    }
    __device__ __forceinline__ GatedSlopes<float> slopes(float a, float, float, bool unscaled) const {
        const float slope = a * rest;
        return {unscaled ? 1.0F : rest, unscaled ? 0.0F : -1.0F, 1.0F, opens ? slope : -slope, 0.0F, 0.0F};
    }
};
template <>
struct KeptDecay<Decay::sigmoid> : KeptSigmoid<true> {};
template <>
struct KeptDecay<Decay::one_minus_sigmoid> : KeptSigmoid<false> {};
template <>
struct KeptDecay<Decay::lower_bound> {
    float power;  // exp(-g)
    __device__ __forceinline__ float take(float g, float, float rate) {
        power = exp_negative(g);
        return fmaf(1.0F - rate, ptx::quick_reciprocal(1.0F + power), rate);
    }
    __device__ __forceinline__ GatedSlopes<float> slopes(float, float rate, float, bool unscaled) const {
        const float s = ptx::quick_reciprocal(1.0F + power), shut = power * s, m = (1.0F - rate) * shut;
        return {unscaled ? 1.0F : m, unscaled ? 0.0F : -1.0F, 1.0F, m * s, 0.0F, shut};
    }
};
// a = exp(x) with x = rate s(g).
template <>
struct KeptDecay<Decay::softplus> {
    float power;  // exp(-g), below 2^128 so that its product with s(g) is a number; s(g) is 0 where it is 2^126 or more
    __device__ __forceinline__ float take(float g, float, float rate) {
        power = ptx::quick_exp2(ptx::least_of(g * -log2_e, 127.9F));
        return ptx::quick_exp2(ptx::quick_reciprocal(1.0F + power) * (rate * log2_e));
    }
    __device__ __forceinline__ GatedSlopes<float> slopes(float a, float rate, float limit, bool unscaled) const {
        const float s = ptx::quick_reciprocal(1.0F + power), x = rate * s;
        const float rest = unscaled ? 1.0F : rest_of(x, a), factor = unscaled ? 0.0F : a;
        // The square is at least 2^-126 for its inverse root to be finite.
        const float square = fmaf(rest, factor, rest), inverse = ptx::quick_inverse_root(fmaxf(square, 0x1p-126F));
        return {square * inverse, -(factor * fminf(inverse, limit)), a, x * (power * s), 0.0F, s};
    }
};
// a = (one + second) / (one + second + one + gate), of which each is kept divided by the sum.
template <>
struct KeptDecay<Decay::ratio> {
    float one, gate, second;
    __device__ __forceinline__ float take(float g, float of_second, float) {
        const RatioPowers of = ratio_powers(g, of_second);
        one = of.one * of.scale, gate = of.gate * of.scale, second = of.second * of.scale;
        return one + second;
    }
    __device__ __forceinline__ GatedSlopes<float> slopes(float a, float, float, bool unscaled) const {
        const float rest = one + gate;
        return {unscaled ? 1.0F : rest, unscaled ? 0.0F : -1.0F, 1.0F, a * gate, -(rest * second), 0.0F};
    }
};

// The type of number that formulas are computed with.
template <typename R, bool Flushed, bool Held>
using Formula = std::conditional_t<std::is_same_v<R, float>, Short<Flushed, Held>, R>;
__device__ __forceinline__ double number_of(double x) { return x; }
using gated::open_of;
using gated::sigmoids;

template <auto value>
using Constant = std::integral_constant<decltype(value), value>;

// Which parts a kernel's layer has. With AnyParts the parameters tell at run time.
struct AnyParts {
    static constexpr bool bounded = false;                        // whether a is known to lie between 0 and 1
    static constexpr bool has_root = true;                        // whether m may be a square root
    static constexpr bool named = false;                          // whether the layer is a row of gated_layers
    static constexpr bool is_softplus = false, is_ratio = false;  // whether the decay is known to be this one
    static constexpr Decay decay = Decay::value;                  // for which KeptDecay is empty
    static constexpr bool has_param = true, has_bias = true, may_have_epilogue = true;
    static __device__ __forceinline__ bool has_input(const GatedParams& p) { return p.input.data != nullptr; }
    static __device__ __forceinline__ bool has_second_gate(const GatedParams& p) {
        return p.second_gate.data != nullptr;
    }
    static __device__ __forceinline__ bool has_input_gate(const GatedParams& p) {
        return p.input_gating != static_cast<int>(InputGating::none);
    }
    static __device__ __forceinline__ bool has_output_gate(const GatedParams& p) {
        return p.epilogue != static_cast<int>(Epilogue::none);
    }
    static __device__ __forceinline__ bool may_be_unscaled(const GatedParams& p) {
        return (p.first_step | p.starts_unscaled) != 0;
    }

    // Each of these calls f with the part as a compile-time constant.
    template <typename F>
    static __device__ __forceinline__ void with_decay(const GatedParams& p, F f) {
        switch (static_cast<Decay>(p.decay)) {
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
    static __device__ __forceinline__ void with_scale(const GatedParams& p, F f) {
        switch (static_cast<Scale>(p.scale)) {
        case Scale::one: return f(Constant<Scale::one>{});
        case Scale::one_minus: return f(Constant<Scale::one_minus>{});
        case Scale::sqrt: return f(Constant<Scale::sqrt>{});
        }
    }
    template <typename F>
    static __device__ __forceinline__ void with_activation(const GatedParams& p, F f) {
        switch (static_cast<Activation>(p.activation)) {
        case Activation::none: return f(Constant<Activation::none>{});
        case Activation::tanh: return f(Constant<Activation::tanh>{});
        case Activation::silu: return f(Constant<Activation::silu>{});
        case Activation::positive: return f(Constant<Activation::positive>{});
        }
    }
    template <typename F>
    static __device__ __forceinline__ void with_epilogue(const GatedParams& p, F f) {
        switch (static_cast<Epilogue>(p.epilogue)) {
        case Epilogue::none: return f(Constant<Epilogue::none>{});
        case Epilogue::sigmoid: return f(Constant<Epilogue::sigmoid>{});
        case Epilogue::silu: return f(Constant<Epilogue::silu>{});
        case Epilogue::tanh_sigmoid: return f(Constant<Epilogue::tanh_sigmoid>{});
        }
    }
};

// The parts of a row of the table gated_layers, without BIAS, as compile-time constants.
template <int layer>
struct NamedParts {
    static constexpr GatedParts parts = gated_layers[layer].parts;
    static constexpr bool bounded =
        parts.decay == Decay::sigmoid || parts.decay == Decay::one_minus_sigmoid || parts.decay == Decay::ratio;
    static constexpr bool has_root = parts.scale == Scale::sqrt, is_softplus = parts.decay == Decay::softplus;
    static constexpr bool named = true, is_ratio = parts.decay == Decay::ratio;
    static constexpr Decay decay = parts.decay;
    static_assert(parts.scale == (decay == Decay::softplus ? Scale::sqrt : Scale::one_minus));  // see KeptDecay
    static constexpr bool has_param = parts.has_param(), has_bias = false;
    static constexpr bool second = parts.has_second_gate(), input_gate = parts.has_input_gate();
    static constexpr bool keeps_input = parts.keeps_input();
    static constexpr bool may_have_epilogue = parts.has_output_gate(), first_step = parts.first_step;
    // Whether INPUT is given, in backward where it is read.
    static __device__ __forceinline__ bool has_input(const GatedParams&) { return keeps_input; }
    static __device__ __forceinline__ bool has_second_gate(const GatedParams&) { return second; }
    static __device__ __forceinline__ bool has_input_gate(const GatedParams&) { return input_gate; }
    static __device__ __forceinline__ bool has_output_gate(const GatedParams&) { return may_have_epilogue; }
    static __device__ __forceinline__ bool may_be_unscaled(const GatedParams&) { return first_step; }
    template <typename F>
    static __device__ __forceinline__ void with_decay(const GatedParams&, F f) {
        f(Constant<parts.decay>{});
    }
    template <typename F>
    static __device__ __forceinline__ void with_scale(const GatedParams&, F f) {
        f(Constant<parts.scale>{});
    }
    template <typename F>
    static __device__ __forceinline__ void with_activation(const GatedParams&, F f) {
        f(Constant<parts.activation>{});
    }
    template <typename F>
    static __device__ __forceinline__ void with_epilogue(const GatedParams&, F f) {
        f(Constant<parts.epilogue>{});
    }
};

// Whether a may exceed 1 in magnitude. A product of such numbers could leave the range of normal numbers and come back
// to it.
template <Decay kind, typename R>
__device__ __forceinline__ bool may_exceed_one(R a) {
    if constexpr (kind == Decay::value || kind == Decay::exp) return !(a <= R(1) && a >= R(-1));
    return false;
}
// Whether the a of any channel may exceed 1 in magnitude because of its rate.
template <typename Parts, typename R, int V>
__device__ __forceinline__ bool rates_exceed_one(const GatedParams& p, const R (&rate)[V]) {
    bool exceeds = false;
    Parts::with_decay(p, [&](auto kind) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if constexpr (kind.value == Decay::lower_bound) exceeds = exceeds || !(rate[v] <= R(1) && rate[v] >= R(0));
            if constexpr (kind.value == Decay::softplus) exceeds = exceeds || !(rate[v] <= R(0));
        }
    });
    return exceeds;
}

// Computes the maps h -> a h + b of one step of V channels; b does not include the state that enters a sequence. `gate`
// includes BIAS; `unscaled` tells that m is 1. Returns whether some a may exceed 1 in magnitude, apart from what
// rates_exceed_one tells.
template <typename Parts, bool Flushed, typename R, int V>
__device__ __forceinline__ bool make_maps(const GatedParams& p, const R (&gate)[V], const R (&second)[V],
                                          const R (&input)[V], const R (&input_gate)[V], const R (&rate)[V],
                                          bool unscaled, R (&a)[V], R (&b)[V]) {
    // Sigmoids must not be held where a root is taken of them. The decay by softplus takes the root of another number,
    // and its sigmoid by open_of, of which `Held` chooses the quicker form.
    constexpr bool held = !Parts::has_root || Parts::is_softplus;
    using D = Formula<R, Flushed, held>;
    using F = Formula<R, Flushed, true>;
    R m[V];
    bool far = false;
    Parts::with_decay(p, [&](auto kind) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const auto d = gated::decayed<kind.value, false>(D(gate[v]), D(second[v]), D(rate[v]));
            a[v] = number_of(d.a);
            m[v] = number_of(d.rest);
            far = far || may_exceed_one<kind.value>(a[v]);
        }
    });
    Parts::with_scale(p, [&](auto kind) {
#pragma unroll
        for (int v = 0; v < V; ++v) m[v] = unscaled ? R(1) : number_of(gated::scaled<kind.value>(D(a[v]), D(m[v])));
    });
    Parts::with_activation(p, [&](auto kind) {
#pragma unroll
        for (int v = 0; v < V; ++v) b[v] = m[v] * number_of(gated::activated<kind.value, false>(F(input[v])).value);
    });
    if (Parts::has_input_gate(p)) {
#pragma unroll
        for (int v = 0; v < V; ++v) b[v] = b[v] * number_of(open_of(F(input_gate[v])));
    }
    return far;
}

// Turns h into OUTPUT.
template <typename Parts, bool Flushed, typename R, int V>
__device__ __forceinline__ void apply_epilogue(const GatedParams& p, const R (&output_gate)[V], R (&h)[V]) {
    using F = Formula<R, Flushed, true>;
    Parts::with_epilogue(p, [&](auto kind) {
#pragma unroll
        for (int v = 0; v < V; ++v) h[v] = number_of(gated::epilogued<kind.value>(F(h[v]), F(output_gate[v])).y);
    });
}

}  // namespace flashscan::cuda
