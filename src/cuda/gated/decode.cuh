// SPDX-License-Identifier: Apache-2.0
// The kernel "decode" of gated layers, gated_decode: the forward pass over few steps, as in decoding, step by step. A
// step is h = a h + b, where a and b are made of gates and inputs (math/gated.h).
//
// Ownership  A thread owns neighbouring channels, 16 bytes of h, of one row of the states, and walks the row's steps
//            with h in registers.
// Bytes      Every element of the named arrays and of the states moves once, states from and to where they lie, which
//            may be rows of a pool.
// Bound      The latency of one step's loads and stores, and of many rows the bytes.
// Sync       None; no block waits for another.
// Limits     None. It is slow for long rows, because a step's loads are issued only one step ahead.
#pragma once

#include "cuda/device/tile/step_rows.cuh"
#include "cuda/gated/parts.cuh"

namespace flashscan::cuda {

// Loads and computes the steps of a thread of gated_decode. Data have type X, GATE and SECOND_GATE type G.
template <typename X, typename G, typename Parts>
struct GatedStepPack {
    using R = typename Element<X>::Wide;
    static constexpr int V = step_channels<R>;
    // The elements of a step. Those of tensors that the layer does not have are not set.
    struct Loaded {
        Pack<X, V> input, input_gate, output_gate;
        Pack<G, V> gate, second_gate;
        uint8_t reset;
    };
    const GatedParams& p;
    const StepPack<V>& own;

    __device__ __forceinline__ Loaded load(uint32_t step) const {
        Loaded at;
        const uint32_t time = own.span.time_of(step, p.down);
        own.load(p.input, time, at.input);
        own.load(p.gate, time, at.gate);
        if (Parts::has_second_gate(p)) own.load(p.second_gate, time, at.second_gate);
        if (Parts::has_input_gate(p)) own.load(p.input_gate, time, at.input_gate);
        if (Parts::has_output_gate(p)) own.load(p.output_gate, time, at.output_gate);
        at.reset = own.span.reset_at(p.reset, p.time, time);
        return at;
    }
    // Loads a parameter of the channels.
    __device__ __forceinline__ void look_up(const void* data, R (&to)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const uint32_t channel = own.channel(v);
            if (channel >= own.channels) continue;
            to[v] = p.wide_params ? static_cast<const R*>(data)[channel]
                                  : Element<X>::widen(static_cast<const X*>(data)[channel]);
        }
    }

    // Takes a step: h becomes the state after it, y is OUTPUT. `unscaled` tells that m is 1, `cut` that h is dropped.
    __device__ __forceinline__ void take(const Loaded& at, const R (&rate)[V], const R (&bias)[V], bool unscaled,
                                         bool cut, Pack<R, V>& h, R (&y)[V]) const {
        R gate[V], second[V] = {}, input[V], input_gate[V] = {}, output_gate[V] = {}, a[V], b[V];
        widen(at.input, input);
        widen(at.gate, gate);
        if (Parts::has_second_gate(p)) widen(at.second_gate, second);
        if (Parts::has_input_gate(p)) widen(at.input_gate, input_gate);
        if (Parts::has_output_gate(p)) widen(at.output_gate, output_gate);
        if (Parts::has_bias)
#pragma unroll
            for (int v = 0; v < V; ++v) gate[v] = gate[v] + bias[v];
        make_maps<Parts, true>(p, gate, second, input, input_gate, rate, unscaled, a, b);
#pragma unroll
        for (int v = 0; v < V; ++v) y[v] = h.part[v] = cut ? b[v] : multiply_add(a[v], h.part[v], b[v]);
        apply_epilogue<Parts, true>(p, output_gate, y);
    }
};

template <typename X, typename G, typename Parts>
__global__ void __launch_bounds__(step_threads)
    gated_decode(const __grid_constant__ GatedParams p, const __grid_constant__ StepParams s) {
    using Own = GatedStepPack<X, G, Parts>;
    using R = typename Own::R;
    constexpr int V = Own::V;
    const auto own = StepPack<V>::here(s, p.offsets, p.time, p.channels);
    if (!own.exists()) return;
    const Own walk{p, own};
    const int32_t index = index_of(s.states, own.row);
    typename Own::Loaded now, next;
    if (own.span.steps > 0) now = walk.load(0);
    const int64_t state_row = row_of_pool(index, s.states.rows);
    Pack<R, V> h;
    own.load_states(state_row, h);
    R rate[V] = {}, bias[V] = {};
    if (Parts::has_bias && p.bias != nullptr) walk.look_up(p.bias, bias);
    if (Parts::has_param && p.param != nullptr) {
        walk.look_up(p.param, rate);
#pragma unroll
        for (int v = 0; v < V; ++v)
            rate[v] = gated::rate_of(static_cast<Decay>(p.decay), rate[v], static_cast<R>(p.decay_rate)).value;
    }
    for (uint32_t step = 0; step < own.span.steps; ++step) {
        if (step + 1 < own.span.steps) next = walk.load(step + 1);
        const bool first = step == 0, reset = now.reset != 0,
                   unscaled = (p.first_step && reset) || (p.starts_unscaled && first);
        R y[V];
        walk.take(now, rate, bias, unscaled, reset || (first && s.states.in == nullptr), h, y);
        if (p.states.data != nullptr) own.template store<X>(p.states, own.span.time_of(step, p.down), h.part);
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (state_row < 0) y[v] = R(0);  // padding
        own.template store<X>(p.output, own.span.time_of(step, p.down), y);
        now = next;
    }
    own.store_states(state_row, h);
}

}  // namespace flashscan::cuda
