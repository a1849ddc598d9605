// SPDX-License-Identifier: Apache-2.0
// Gated layers that have a name where lanes are consecutive steps of one channel: the formulas of gated_layers.h around
// the blocks of linear_row_steps.h. What a block is walked by lies in panels too, from which single steps are taken
// where a block is computed step by step.
#pragma once

#include "cpu/kernels/gated_layers.h"
#include "cpu/kernels/linear_row_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
using LayerRow = RowTile<T, false, Own<T>, Own<T>>;

// Two vectors of neighbouring numbers.
template <typename T>
struct Neighbours {
    Vec<T> low, high;
};

// Walks block `i` of the steps of w.a and `x`, and returns its h, or g with Backward.
template <bool Mirror, bool Backward, typename T>
FLASHSCAN_INLINE Neighbours<T> walk_panel_block(LayerRow<T>& t, int64_t i, int64_t at, Two<T>& carry) {
    using Block = RowBlock<T, false, Mirror>;
    const Two<T> x = widen_two(t.x + at), a = widen_two(t.gate + at);
    Two<T> out, next = carry;
    const bool good = walk_block<Backward, Block>(t, x, a, next, out);
    if (!end_block<Mirror, Backward, Block::steps>(t, i, good, out, next, carry))
        return {load(t.y + at), load(t.y + at + Simd<T>::width)};
    // The vectors of what is left over after the blocks may overlap this one.
    if constexpr (Mirror) store<T>(t.y + at, low_half(out));
    return {low_half(out), high_half(out)};
}

// t.x, t.gate and t.y are panels of w, which hold whole vectors.
template <int Layer, bool Mirror, typename T>
void layer_row_forward(GatedWork<T>& w, LayerRow<T>& t, const LayerTile tile, bool kept) {
    constexpr int64_t width = Simd<T>::width, steps = 2 * width;
    const LayerSources<T> s(w);
    const Target<T> y(w.y), hidden(w.hidden);
    const Lanes<T> bias(w.bias[tile.channel]), rate(w.rate[tile.channel]);
    for (int64_t at = 0; at < t.steps; at += width) {
        look_ahead<Layer, false>(tile, 0, at);
        const LayerMap<T> map = map_at<Layer>(s, at, bias, rate);
        put_lanes(w.a, at, map.a);
        Lanes<T> x = map.m * map.v;
        const int64_t fresh = tile.fresh - at;
        if (fresh >= 0 && fresh < width) [[unlikely]]
            x = select(only_lane<T>(fresh), map.v, x);
        put_lanes(w.x, at, x);
    }
    const auto put = [&](int64_t at, Vec<T> h) __attribute__((always_inline)) {
        put_output<Layer>(s, y, hidden, kept, at, Lanes<T>(h));
    };
    Two<T> carry = splat_two(t.carry);
    int64_t i = 0;
    for (; i + steps <= t.steps; i += steps) {
        const int64_t at = Mirror ? t.steps - steps - i : i;
        const Neighbours<T> h = walk_panel_block<Mirror, false>(t, i, at, carry);
        put(at, h.low);
        put(at + width, h.high);
    }
    take_first(carry, t.carry);
    rows_steps<Mirror, false>(t, i, t.steps);
    for (int64_t at = Mirror ? 0 : i, to = Mirror ? t.steps - i : t.steps; at < to; at += width)
        put(at, load(t.y + at));
}

// The same backward. Adds the gradients of the rate and of the bias to those two of `sums`, unless that is null.
template <int Layer, bool Mirror, typename T>
void layer_row_backward(GatedWork<T>& w, LayerRow<T>& t, const LayerTile tile, T limit, double* sums) {
    using V = Lanes<T>;
    constexpr GatedParts parts = gated_layers[Layer].parts;
    constexpr int64_t width = Simd<T>::width, steps = 2 * width;
    const LayerSources<T> s(w);
    const LayerGradients<T> grad(w);
    const V bias(w.bias[tile.channel]), rate(w.rate[tile.channel]);
    V gate_sum(T(0)), rate_sum(T(0));
    const auto before = [&](int64_t at) __attribute__((always_inline)) {
        look_ahead<Layer, true>(tile, 0, at);
        const LayerFactors<T> f = factors_at<Layer>(s, grad, at, bias, rate, V(limit));
        put_lanes(w.a, at, f.decay.a);
        if constexpr (parts.has_output_gate()) put_lanes(w.x, at, f.dh);
        return f;
    };
    const auto after = [&](int64_t at, const LayerFactors<T>& f, Vec<T> g) __attribute__((always_inline)) {
        const V previous = at == tile.edge ? take(w.previous.own, 0) : take(s.previous, at);
        return put_gradients<Layer>(s, grad, at, f, V(g), previous, tile.fresh - at);
    };
    Two<T> carry = splat_two(t.carry);
    int64_t i = 0;
    for (; i + steps <= t.steps; i += steps) {
        const int64_t at = Mirror ? t.steps - steps - i : i;
        const LayerFactors<T> low = before(at), high = before(at + width);
        const Neighbours<T> g = walk_panel_block<Mirror, true>(t, i, at, carry);
        const GateGradient<T> one = after(at, low, g.low), two = after(at + width, high, g.high);
        gate_sum += one.gate + two.gate;
        if constexpr (parts.has_param()) rate_sum += one.rate + two.rate;
    }
    take_first(carry, t.carry);
    const int64_t from = Mirror ? 0 : i, to = Mirror ? t.steps - i : t.steps;
    LayerFactors<T> rest[2];
    for (int64_t at = from; at < to; at += width) rest[at != from] = before(at);
    rows_steps<Mirror, true>(t, i, t.steps);
    for (int64_t at = from; at < to; at += width) {
        const GateGradient<T> d = after(at, rest[at != from], load(t.y + at));
        // Lanes past the last step hold anything.
        for (int64_t k = 0; k < width && at + k < to; ++k) gate_sum.v[k] += d.gate.v[k], rate_sum.v[k] += d.rate.v[k];
    }
    if (sums == nullptr) return;
    put_lanes(w.value, 0, gate_sum);
    put_lanes(w.grad_rate, 0, rate_sum);
    sums[1] += add_up(w.value, width, 1);
    if constexpr (parts.has_param())
        sums[0] += add_up(w.grad_rate, width, 1) * static_cast<double>(w.rate_by_param[tile.channel]);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
