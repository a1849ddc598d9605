// SPDX-License-Identifier: Apache-2.0
// Gated layers: the parts that they are put together from, the table of the layers with a name, and the formulas of the
// parts with their derivatives. Compiles as C++ and CUDA C++. Elements are of any type that has arithmetic,
// comparisons, select and the functions of math/activation.h: a number, or a vector of them.
//
//     a = decay(g)     m = scale(a)     v = activation(x) gate(i)     h' = a h + m v     y = h' epilogue(o)
//
// The decay comes with 1 - a, free of cancellation: the scales are functions of both.
#pragma once

#include "math/activation.h"

namespace flashscan {

enum class Decay : int {
    value,              // g
    exp,                // exp(g)
    sigmoid,            // s(g)
    one_minus_sigmoid,  // 1 - s(g)
    lower_bound,        // p + (1 - p) s(g), p the parameter of the channel
    softplus,           // exp(-c softplus(p) s(g))
    ratio               // s(g) / (s(g) + s(second gate))
};
enum class Scale : int {
    one,
    one_minus,  // 1 - a
    sqrt        // sqrt(1 - a^2)
};
enum class Activation : int {
    none,
    tanh,
    silu,
    positive  // x + 1/2 for x >= 0, else s(x)
};
enum class InputGating : int {
    none,
    sigmoid
};
enum class Epilogue : int {
    none,
    sigmoid,      // h s(o)
    silu,         // h o s(o)
    tanh_sigmoid  // tanh(h) s(o)
};

struct GatedParts {
    Decay decay;
    Scale scale;
    Activation activation;
    InputGating input_gating;
    Epilogue epilogue;
    bool first_step;  // m = 1 where a sequence starts

    constexpr bool operator==(const GatedParts& other) const {
        return decay == other.decay && scale == other.scale && activation == other.activation &&
               input_gating == other.input_gating && epilogue == other.epilogue && first_step == other.first_step;
    }

    constexpr bool has_second_gate() const { return decay == Decay::ratio; }
    constexpr bool has_param() const { return decay == Decay::lower_bound || decay == Decay::softplus; }
    constexpr bool has_input_gate() const { return input_gating != InputGating::none; }
    constexpr bool has_output_gate() const { return epilogue != Epilogue::none; }
    // Whether backward reads INPUT: not where v = x and nothing is multiplied by it.
    constexpr bool keeps_input() const {
        return activation != Activation::none || has_input_gate() || scale != Scale::one;
    }
};

// The layers with a name, in the order of the interface's numbers.
struct GatedLayer {
    const char* name;
    GatedParts parts;
};
inline constexpr GatedLayer gated_layers[] = {
    {"mingru",
     {Decay::one_minus_sigmoid, Scale::one_minus, Activation::positive, InputGating::none, Epilogue::none, false}},
    {"minlstm", {Decay::ratio, Scale::one_minus, Activation::positive, InputGating::none, Epilogue::none, false}},
    {"hgrn", {Decay::lower_bound, Scale::one_minus, Activation::silu, InputGating::none, Epilogue::none, false}},
    {"rglru", {Decay::softplus, Scale::sqrt, Activation::none, InputGating::sigmoid, Epilogue::none, true}},
    {"qrnn", {Decay::sigmoid, Scale::one_minus, Activation::tanh, InputGating::none, Epilogue::sigmoid, false}},
    {"gilr", {Decay::sigmoid, Scale::one_minus, Activation::tanh, InputGating::none, Epilogue::none, false}},
};
inline constexpr int gated_layer_count = static_cast<int>(sizeof(gated_layers) / sizeof(gated_layers[0]));

namespace gated {

// s(g) and 1 - s(g) = s(-g), each from the exponential that cannot overflow.
template <typename V>
struct Sigmoids {
    V open, shut;
};
template <typename V>
FLASHSCAN_HD Sigmoids<V> sigmoids(V g) {
    const V e = exp_of_minus_magnitude(g);
    const V large = reciprocal(V(1) + e), small = e * large;
    return {select(g < V(0), small, large), select(g < V(0), large, small)};
}

// s(g) alone.
template <typename V>
FLASHSCAN_HD V open_of(V g) {
    return sigmoids(g).open;
}

// What a channel's parameter becomes before any step: the lower bound, or -c softplus(p), with its derivative by p.
template <typename V>
struct Rate {
    V value, slope;
};
template <typename V>
FLASHSCAN_HD Rate<V> rate_of(Decay decay, V param, V factor) {
    if (decay != Decay::softplus) return {param, V(1)};
    return {factor * log_sigmoid(-param), -factor * sigmoids(param).open};
}

template <typename V>
struct Decayed {
    V a, rest;                               // rest = 1 - a
    V gate_slope, second_slope, rate_slope;  // da / dg, da / d(second gate), da / d(rate)
};

// The decay s(g) / (s(g) + s(second)). Numerator and denominator are multiplied by exp(-most), the largest of exp(-g),
// exp(-second) and 1: sums of numbers of one sign, of which one is 1.
template <typename V>
FLASHSCAN_HD Decayed<V> ratio_of(V g, V second) {
    const V least = select(g < second, g, second), other = select(g < second, second, g);
    const V most = select(least < V(0), -least, V(0)), small = exp_of(select(least < V(0), least, -least));
    const V one = select(least < V(0), small, V(1)), of_least = select(least < V(0), V(1), small);
    const V of_other = exp_of(-other - most);
    const V of_gate = select(g < second, of_least, of_other), of_second = select(g < second, of_other, of_least);
    const V scale = reciprocal((one + of_second) + (one + of_gate));
    const V a = (one + of_second) * scale, rest = (one + of_gate) * scale;
    return {a, rest, a * (of_gate * scale), -(rest * (of_second * scale)), V(0)};
}

// Without Slopes a and 1 - a alone.
template <Decay kind, bool Slopes = true, typename V>
FLASHSCAN_HD Decayed<V> decayed(V g, V second, V rate) {
    if constexpr (kind == Decay::value) {
        return {g, V(1) - g, V(1), V(0), V(0)};
    } else if constexpr (kind == Decay::exp) {
        const ExpAndRest<V> e = exp_and_rest(g);
        return {e.exp, e.rest, e.exp, V(0), V(0)};
    } else if constexpr (kind == Decay::sigmoid) {
        const Sigmoids<V> s = sigmoids(g);
        return {s.open, s.shut, s.open * s.shut, V(0), V(0)};
    } else if constexpr (kind == Decay::one_minus_sigmoid) {
        const Sigmoids<V> s = sigmoids(g);
        return {s.shut, s.open, -(s.open * s.shut), V(0), V(0)};
    } else if constexpr (kind == Decay::lower_bound) {
        const Sigmoids<V> s = sigmoids(g);
        const V above = V(1) - rate;
        return {rate + above * s.open, above * s.shut, above * s.open * s.shut, V(0), s.shut};
    } else if constexpr (kind == Decay::softplus && !Slopes) {
        const ExpAndRest<V> e = exp_and_rest_of_negative(rate * open_of(g));
        return {e.exp, e.rest, V(0), V(0), V(0)};
    } else if constexpr (kind == Decay::softplus) {
        const Sigmoids<V> s = sigmoids(g);
        const ExpAndRest<V> e = exp_and_rest_of_negative(rate * s.open);
        return {e.exp, e.rest, e.exp * rate * s.open * s.shut, V(0), e.exp * s.open};
    } else {
        return ratio_of(g, second);
    }
}

template <Scale kind, typename V>
FLASHSCAN_HD V scaled(V a, V rest) {
    if constexpr (kind == Scale::one) return V(1);
    if constexpr (kind == Scale::one_minus) return rest;
    return sqrt_of(rest * (V(1) + a));
}
// dm / da. `limit` is the largest derivative of the square root that is passed on.
template <Scale kind, typename V>
FLASHSCAN_HD V scale_slope(V a, V m, V limit) {
    if constexpr (kind == Scale::one) return V(0);
    if constexpr (kind == Scale::one_minus) return V(-1);
    // At a = 1 rest may be -0, of which the root is -0, too.
    const V inverse = reciprocal(m + V(0)), most = limit + limit;
    return -(a * select(inverse > most, most, inverse));
}

template <typename V>
struct ValueAndSlope {
    V value, slope;
};
// Without Slopes the value alone.
template <Activation kind, bool Slopes = true, typename V>
FLASHSCAN_HD ValueAndSlope<V> activated(V x) {
    if constexpr (kind == Activation::none) {
        return {x, V(1)};
    } else if constexpr (kind != Activation::tanh && !Slopes) {
        const V open = open_of(x);
        return {kind == Activation::silu ? x * open : select(x < V(0), open, x + V(0.5)), V(0)};
    } else if constexpr (kind == Activation::tanh) {
        const V t = tanh_of(x);
        return {t, (V(1) - t) * (V(1) + t)};
    } else {
        const Sigmoids<V> s = sigmoids(x);
        if constexpr (kind == Activation::silu) return {x * s.open, s.open * (V(1) + x * s.shut)};
        return {select(x < V(0), s.open, x + V(0.5)), select(x < V(0), s.open * s.shut, V(1))};
    }
}

template <InputGating kind, typename V>
FLASHSCAN_HD ValueAndSlope<V> input_gated(V i) {
    if constexpr (kind == InputGating::none) return {V(1), V(0)};
    const Sigmoids<V> s = sigmoids(i);
    return {s.open, s.open * s.shut};
}

// y and its derivatives by h and by o.
template <typename V>
struct Epilogued {
    V y, state_slope, gate_slope;
};
template <Epilogue kind, typename V>
FLASHSCAN_HD Epilogued<V> epilogued(V h, V o) {
    if constexpr (kind == Epilogue::none) {
        return {h, V(1), V(0)};
    } else {
        const Sigmoids<V> s = sigmoids(o);
        if constexpr (kind == Epilogue::sigmoid) return {h * s.open, s.open, h * (s.open * s.shut)};
        if constexpr (kind == Epilogue::silu) {
            const V gate = o * s.open;
            return {h * gate, gate, h * (s.open * (V(1) + o * s.shut))};
        }
        const V t = tanh_of(h);
        return {t * s.open, s.open * ((V(1) - t) * (V(1) + t)), t * (s.open * s.shut)};
    }
}

}  // namespace gated

}  // namespace flashscan
