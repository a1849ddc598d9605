// SPDX-License-Identifier: Apache-2.0
// Gated layers: layers with a name whose lanes are channels, forward and backward, each in one loop over the vectors of
// a tile. It does what the stages and the walk do one after the other, by the same operations and so with the same
// bits, and what they pass on in panels stays in registers. Other parts, steps at which m is 1 and tiles with resets
// take the stages.
#pragma once

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
    [&]<int... K>(std::integer_sequence<int, K...>) { ((K == layer && (use.template operator()<K>(), true)) || ...); }
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

// `steps` steps of `lanes` numbers without gaps between them, walked from the first on, or with `down` from the last.
struct LayerTile {
    int64_t steps, lanes;
    bool down;
    Ahead ahead[source_count];
};

// Calls use(place in the panels, lane) for each vector, and prefetches what lies ahead of it.
template <int Layer, bool Backward, typename T, typename Use>
FLASHSCAN_INLINE void for_tile(const LayerTile& t, Use use) {
    constexpr auto sources = std::make_integer_sequence<int, source_count>{};
    for (int64_t k = 0; k < t.steps; ++k) {
        const int64_t step = t.down ? t.steps - 1 - k : k;
        for (int64_t l = 0; l < t.lanes; l += Simd<T>::width) {
            const auto ahead = [&]<int S>() __attribute__((always_inline)) {
                if constexpr (reads(gated_layers[Layer].parts, Backward, S))
                    prefetch(t.ahead[S].at + step * t.ahead[S].row + l * t.ahead[S].number);
            };
            [&]<int... S>(std::integer_sequence<int, S...>) __attribute__((always_inline)) {
                (ahead.template operator()<S>(), ...);
            }
            (sources);
            use(step * t.lanes + l, l);
        }
    }
}

// Writes y, and the states if they are wanted.
template <int Layer, typename T>
void layer_forward(GatedWork<T>& w, const LayerTile t, bool states) {
    using V = Lanes<T>;
    constexpr GatedParts parts = gated_layers[Layer].parts;
    const T *gate = w.gate.at, *second_gate = w.second_gate.at, *input = w.input.at, *input_gate = w.input_gate.at;
    const T* output_gate = w.output_gate.at;
    const Target<T> y(w.y), hidden(w.hidden);
    for_tile<Layer, false, T>(
        t, [&](int64_t i, int64_t l) __attribute__((always_inline)) {
            V second(0), v = gated::activated<parts.activation, false>(take(input, i)).value;
            if constexpr (parts.has_second_gate()) second = take(second_gate, i);
            if constexpr (parts.has_input_gate())
                v = v * gated::input_gated<parts.input_gating>(take(input_gate, i)).value;
            const auto d = gated::decayed<parts.decay, false>(take(gate, i) + take(w.bias, l), second, take(w.rate, l));
            const V x = gated::scaled<parts.scale>(d.a, d.rest) * v, h(fused(d.a.v, load(w.carry + l), x.v));
            put_lanes(w.carry, l, h);
            if constexpr (parts.has_output_gate()) {
                if (states) put_lanes(hidden, i, h);
                put_lanes(y, i, gated::epilogued<parts.epilogue>(h, take(output_gate, i)).y);
            } else {
                put_lanes(y, i, h);
            }
        });
}

// Writes all gradients, and with `sums` adds those of the rate and of the bias to w.grad_rate and w.value of their lane.
template <int Layer, typename T>
void layer_backward(GatedWork<T>& w, const LayerTile t, T limit, bool sums) {
    using V = Lanes<T>;
    constexpr GatedParts parts = gated_layers[Layer].parts;
    static_assert(parts.scale != Scale::one);
    const T *gate = w.gate.at, *second_gate = w.second_gate.at, *input = w.input.at, *input_gate = w.input_gate.at;
    const T *output_gate = w.output_gate.at, *grad_output = w.grad_output.at, *states = w.states.at;
    const T* previous = w.previous.at;
    const Target<T> grad_input(w.grad_input), grad_input_gate(w.grad_input_gate), grad_gate(w.grad_gate);
    const Target<T> grad_second(w.grad_second), grad_output_gate(w.grad_output_gate);
    for_tile<Layer, true, T>(
        t, [&](int64_t i, int64_t l) __attribute__((always_inline)) {
            V second(0);
            if constexpr (parts.has_second_gate()) second = take(second_gate, i);
            const auto d = gated::decayed<parts.decay>(take(gate, i) + take(w.bias, l), second, take(w.rate, l));
            const V m = gated::scaled<parts.scale>(d.a, d.rest);
            const auto x = gated::activated<parts.activation>(take(input, i));
            V dh = take(grad_output, i);
            if constexpr (parts.has_output_gate()) {
                const auto e = gated::epilogued<parts.epilogue>(take(states, i), take(output_gate, i));
                put_lanes(grad_output_gate, i, dh * e.gate_slope);
                dh = dh * e.state_slope;
            }
            const V g = dh + take(w.carry, l), dv = m * g;
            put_lanes(w.carry, l, d.a * g);
            V value = x.value;
            if constexpr (parts.has_input_gate()) {
                const auto in = gated::input_gated<parts.input_gating>(take(input_gate, i));
                value = x.value * in.value;
                put_lanes(grad_input, i, dv * (in.value * x.slope));
                put_lanes(grad_input_gate, i, dv * (x.value * in.slope));
            } else {
                put_lanes(grad_input, i, dv * x.slope);
            }
            V da = g * take(previous, i);
            if constexpr (parts.scale == Scale::one_minus) da = da - g * value;
            if constexpr (parts.scale == Scale::sqrt)
                da = da + g * value * gated::scale_slope<parts.scale>(d.a, m, V(limit));
            const V dg = da * d.gate_slope;
            put_lanes(grad_gate, i, dg);
            if constexpr (parts.has_second_gate()) put_lanes(grad_second, i, da * d.second_slope);
            if (!sums) return;
            put_lanes(w.value, l, take(w.value, l) + dg);
            if constexpr (parts.has_param()) put_lanes(w.grad_rate, l, take(w.grad_rate, l) + da * d.rate_slope);
        });
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
