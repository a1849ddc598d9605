// SPDX-License-Identifier: Apache-2.0
// The kernel "decode", linear_decode: the linear recurrence forward over few steps, as in decoding.
//
//     h[t] = a[t] h[t-1] + x[t]                    step by step
//
// Ownership  A thread owns a pack of channels of one row of the states and walks the row's steps with h in registers.
// Bytes      Every element moves once, and so do the states, from and to where they lie, which may be rows of a pool.
// Bound      The latency of one step's loads and stores, and of many rows the bytes.
// Sync       None; no block waits for another.
// Limits     None. It is slow for long rows, because a step's loads are issued only one step ahead.
// Why        One launch does all of a decoding step, where other kernels need their states copied from a pool and back.
#pragma once

#include "cuda/device/tile/step_rows.cuh"
#include "cuda/linear/decode_params.h"

namespace flashscan::cuda {

template <typename X, typename G>
struct LinearStepPack {
    static constexpr int V = step_channels<typename Element<X>::Wide>;
    struct Loaded {
        Pack<X, V> input;
        Pack<G, V> gate;
        uint8_t reset;
    };
    const LinearStepsParams& p;
    const StepPack<V>& own;

    __device__ __forceinline__ Loaded load(uint32_t step) const {
        Loaded at;
        const uint32_t time = own.span.time_of(step, p.down);
        own.load(p.input, time, at.input);
        own.load(p.gate, time, at.gate);
        at.reset = own.span.reset_at(p.reset, p.time, time);
        return at;
    }
};

template <typename X, typename G>
__global__ void __launch_bounds__(step_threads)
    linear_decode(const __grid_constant__ LinearStepsParams p, const __grid_constant__ StepParams s) {
    using Own = LinearStepPack<X, G>;
    using Wide = typename Element<X>::Wide;
    constexpr int V = Own::V;
    const auto own = StepPack<V>::here(s, p.offsets, p.time, p.channels);
    if (!own.exists()) return;
    const Own walk{p, own};
    const int32_t index = index_of(s.states, own.row);
    typename Own::Loaded now, next;
    if (own.span.steps > 0) now = walk.load(0);
    const int64_t state_row = row_of_pool(index, s.states.rows);
    Pack<Wide, V> h;
    own.load_states(state_row, h);
    for (uint32_t step = 0; step < own.span.steps; ++step) {
        if (step + 1 < own.span.steps) next = walk.load(step + 1);
        Wide x[V], y[V];
        typename Element<G>::Wide a[V];
        widen(now.input, x);
        widen(now.gate, a);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (p.gate_form != gate_value) a[v] = gate_of(p.gate_form, a[v]);
            h.part[v] = now.reset != 0 ? x[v] : multiply_add(a[v], h.part[v], x[v]);
            y[v] = state_row < 0 ? Wide{} : h.part[v];  // padding has zeros
        }
        own.template store<X>(p.output, own.span.time_of(step, p.down), y);
        now = next;
    }
    own.store_states(state_row, h);
}

}  // namespace flashscan::cuda
