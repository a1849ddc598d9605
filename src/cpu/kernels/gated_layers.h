// SPDX-License-Identifier: Apache-2.0
// Gated layers that have a name, forward and backward in one loop over the vectors of a tile each. The loops do what
// the stages and the walk do one after the other, and keep in registers what those pass on in panels. The operations
// are the same, and so are the bits. Only where lanes are steps, sums for GRAD|PARAM and GRAD|BIAS are added in another
// order. Here are the formulas for a vector and the loop over channels; gated_layer_rows.h has the loop over steps.
// Other parts, tiles with resets, passes that write nothing, backward without gradients of gates, and with channels
// innermost a step whose m is 1 take the stages.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu/kernels/gated_stages.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The number of the layer that has these parts, or gated_layer_count. Whether m is 1 at first steps does not count.
inline int layer_of(GatedParts parts) {
    for (int k = 0; k < gated_layer_count; ++k) {
        parts.first_step = gated_layers[k].parts.first_step;
        if (parts == gated_layers[k].parts) return k;
    }
    return gated_layer_count;
}
// Calls use.template operator()<layer>() with the layer as a constant.
template <typename Use>
FLASHSCAN_INLINE void with_layer(int layer, Use use) {
    [&]<int... K>(std::integer_sequence<int, K...>) { ((K == layer ? use.template operator()<K>() : void()), ...); }
    (std::make_integer_sequence<int, gated_layer_count>{});
}

// The tensors that a tile is computed from.
enum Source : int {
    gate_source,
    input_source,
    second_gate_source,
    input_gate_source,
    output_gate_source,
    grad_output_source,
    states_source,
    source_count
};
constexpr bool reads(const GatedParts& parts, bool backward, int source) {
    switch (source) {
    case second_gate_source: return parts.has_second_gate();
    case input_gate_source: return parts.has_input_gate();
    case output_gate_source: return parts.has_output_gate();
    case grad_output_source:
    case states_source: return backward;
    default: return true;
    }
}

// A LayerTile has what a loop needs of a tile. Where lanes are channels, it has `steps` steps of `lanes` numbers,
// `pitch` apart, walked from the first on, or with `down` from the last; `channel`, `fresh` and `edge` are not used.
// Where lanes are steps of `channel`, m is 1 at step `fresh`, and the states before the steps of the vector at `edge`
// are in previous.own; both are -1 where there is none.
struct LayerTile {
    Ahead ahead[source_count];
    int64_t steps, lanes, pitch;
    bool down;
    int64_t channel, fresh, edge;
};

// Prefetches what lies ahead of number `number` of row `row`.
template <int Layer, bool Backward>
FLASHSCAN_INLINE void look_ahead(const LayerTile& t, int64_t row, int64_t number) {
    const auto one = [&]<int S>() __attribute__((always_inline)) {
        if constexpr (reads(gated_layers[Layer].parts, Backward, S))
            prefetch(t.ahead[S].at + row * t.ahead[S].row + number * t.ahead[S].number);
    };
    [&]<int... S>(std::integer_sequence<int, S...>) __attribute__((always_inline)) {
        (one.template operator()<S>(), ...);
    }
    (std::make_integer_sequence<int, source_count>{});
}

// The panels that a tile is computed from, and those of its gradients. They are copies, which stores cannot change.
template <typename T>
struct LayerSources {
    const T *gate, *input, *second_gate, *input_gate, *output_gate, *grad_output, *states, *previous;
    explicit LayerSources(const GatedWork<T>& w)
        : gate(w.gate.at),
          input(w.input.at),
          second_gate(w.second_gate.at),
          input_gate(w.input_gate.at),
          output_gate(w.output_gate.at),
          grad_output(w.grad_output.at),
          states(w.states.at),
          previous(w.previous.at) {}
};
template <typename T>
struct LayerGradients {
    Target<T> input, input_gate, gate, second_gate, output_gate;
    explicit LayerGradients(const GatedWork<T>& w)
        : input(w.grad_input),
          input_gate(w.grad_input_gate),
          gate(w.grad_gate),
          second_gate(w.grad_second),
          output_gate(w.grad_output_gate) {}
};

template <int Layer, bool Slopes, typename T>
FLASHSCAN_INLINE gated::Decayed<Lanes<T>> decayed_at(const LayerSources<T>& s, int64_t i, Lanes<T> bias,
                                                     Lanes<T> rate) {
    constexpr GatedParts parts = gated_layers[Layer].parts;
    Lanes<T> second(T(0));
    if constexpr (parts.has_second_gate()) second = take(s.second_gate, i);
    return gated::decayed<parts.decay, Slopes>(take(s.gate, i) + bias, second, rate);
}

template <typename T>
struct LayerMap {
    Lanes<T> a, m, v;
};
template <int Layer, typename T>
FLASHSCAN_INLINE LayerMap<T> map_at(const LayerSources<T>& s, int64_t i, Lanes<T> bias, Lanes<T> rate) {
    constexpr GatedParts parts = gated_layers[Layer].parts;
    Lanes<T> v = gated::activated<parts.activation, false>(take(s.input, i)).value;
    if constexpr (parts.has_input_gate()) v = v * gated::input_gated<parts.input_gating>(take(s.input_gate, i)).value;
    const auto d = decayed_at<Layer, false>(s, i, bias, rate);
    return {d.a, gated::scaled<parts.scale>(d.a, d.rest), v};
}
// Writes y of the states h, and h itself where it is `kept`.
template <int Layer, typename T>
FLASHSCAN_INLINE void put_output(const LayerSources<T>& s, const Target<T>& y, const Target<T>& hidden, bool kept,
                                 int64_t i, Lanes<T> h) {
    constexpr GatedParts parts = gated_layers[Layer].parts;
    if constexpr (!parts.has_output_gate()) return put_lanes(y, i, h);
    if (kept) put_lanes(hidden, i, h);
    put_lanes(y, i, gated::epilogued<parts.epilogue>(h, take(s.output_gate, i)).y);
}

// LayerFactors are what backward computes before the walk: the decay, m and its slope, and the gradient of h.
template <typename T>
struct LayerFactors {
    gated::Decayed<Lanes<T>> decay;
    Lanes<T> m, scale_slope, dh;
};
template <int Layer, typename T>
FLASHSCAN_INLINE LayerFactors<T> factors_at(const LayerSources<T>& s, const LayerGradients<T>& grad, int64_t i,
                                            Lanes<T> bias, Lanes<T> rate, Lanes<T> limit) {
    constexpr GatedParts parts = gated_layers[Layer].parts;
    const auto d = decayed_at<Layer, true>(s, i, bias, rate);
    const Lanes<T> m = gated::scaled<parts.scale>(d.a, d.rest);
    Lanes<T> dh = take(s.grad_output, i);
    if constexpr (parts.has_output_gate()) {
        const auto e = gated::epilogued<parts.epilogue>(take(s.states, i), take(s.output_gate, i));
        put_lanes(grad.output_gate, i, dh * e.gate_slope);
        dh = dh * e.state_slope;
    }
    return {d, m, gated::scale_slope<parts.scale>(d.a, m, limit), dh};
}

template <typename T>
FLASHSCAN_INLINE Mask<T> only_lane(int64_t lane) {
    using Int = typename Simd<T>::Int;
    Int lanes = {};
    for (int k = 0; k < Simd<T>::width; ++k) lanes[k] = k;
    return {lanes == Int{} + static_cast<std::remove_cvref_t<decltype(lanes[0])>>(lane)};
}

// The gradient of the gate, which is that of the bias, and that of the rate.
template <typename T>
struct GateGradient {
    Lanes<T> gate, rate;
};
// Writes the gradients where that of h, with what later steps add to it, is g. m is 1 in the lane `fresh`, unless that
// is not one of them.
template <int Layer, typename T>
FLASHSCAN_INLINE GateGradient<T> put_gradients(const LayerSources<T>& s, const LayerGradients<T>& grad, int64_t i,
                                               const LayerFactors<T>& f, Lanes<T> g, Lanes<T> previous,
                                               int64_t fresh = -1) {
    using V = Lanes<T>;
    constexpr GatedParts parts = gated_layers[Layer].parts;
    static_assert(parts.scale != Scale::one);
    const auto x = gated::activated<parts.activation>(take(s.input, i));
    V value = x.value, in_value(T(1)), in_slope(T(0));
    if constexpr (parts.has_input_gate()) {
        const auto in = gated::input_gated<parts.input_gating>(take(s.input_gate, i));
        in_value = in.value, in_slope = in.slope;
        value = x.value * in_value;
    }
    const V by_decay = g * previous;
    V da = by_decay - g * value, dv = f.m * g;
    if constexpr (parts.scale == Scale::sqrt) da = by_decay + g * value * f.scale_slope;
    if (fresh >= 0 && fresh < Simd<T>::width) [[unlikely]] {
        const Mask<T> lane = only_lane<T>(fresh);
        da = select(lane, by_decay, da), dv = select(lane, g, dv);
    }
    const GateGradient<T> sums{da * f.decay.gate_slope, da * f.decay.rate_slope};
    put_lanes(grad.gate, i, sums.gate);
    if constexpr (parts.has_second_gate()) put_lanes(grad.second_gate, i, da * f.decay.second_slope);
    if constexpr (parts.has_input_gate()) {
        put_lanes(grad.input, i, dv * (in_value * x.slope));
        put_lanes(grad.input_gate, i, dv * (x.value * in_slope));
    } else {
        put_lanes(grad.input, i, dv * x.slope);
    }
    return sums;
}

// Calls use(place in the panels, lane) for each vector.
template <int Layer, bool Backward, typename T, typename Use>
FLASHSCAN_INLINE void for_tile(const LayerTile& t, Use use) {
    for (int64_t k = 0; k < t.steps; ++k) {
        const int64_t step = t.down ? t.steps - 1 - k : k;
        for (int64_t l = 0; l < t.lanes; l += Simd<T>::width) {
            look_ahead<Layer, Backward>(t, step, l);
            use(step * t.pitch + l, l);
        }
    }
}

// Lanes are channels. Writes y, and the states if they are kept.
template <int Layer, typename T>
void layer_forward(GatedWork<T>& w, const LayerTile t, bool kept) {
    const LayerSources<T> s(w);
    const Target<T> y(w.y), hidden(w.hidden);
    for_tile<Layer, false, T>(
        t, [&](int64_t i, int64_t l) __attribute__((always_inline)) {
            const LayerMap<T> map = map_at<Layer>(s, i, take(w.bias, l), take(w.rate, l));
            const Lanes<T> h(fused(map.a.v, load(w.carry + l), (map.m * map.v).v));
            put_lanes(w.carry, l, h);
            put_output<Layer>(s, y, hidden, kept, i, h);
        });
}

// Writes all gradients, and with `sums` adds those of the rate and of the bias to w.rate_sum and w.gate_sum.
template <int Layer, typename T>
void layer_backward(GatedWork<T>& w, const LayerTile t, T limit, bool sums) {
    const LayerSources<T> s(w);
    const LayerGradients<T> grad(w);
    for_tile<Layer, true, T>(
        t, [&](int64_t i, int64_t l) __attribute__((always_inline)) {
            const auto f = factors_at<Layer>(s, grad, i, take(w.bias, l), take(w.rate, l), Lanes<T>(limit));
            const Lanes<T> g = f.dh + take(w.carry, l);
            put_lanes(w.carry, l, f.decay.a * g);
            const GateGradient<T> d = put_gradients<Layer>(s, grad, i, f, g, take(s.previous, i));
            if (!sums) return;
            put_lanes(w.gate_sum, l, take(w.gate_sum, l) + d.gate);
            if constexpr (gated_layers[Layer].parts.has_param()) put_lanes(w.rate_sum, l, take(w.rate_sum, l) + d.rate);
        });
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
