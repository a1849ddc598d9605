// SPDX-License-Identifier: Apache-2.0
// Recurrent networks forward, in turns with products: a step multiplies the factors by R, then one thread per element
// adds INPUT and BIAS, runs the cell and leaves the factors of the next step.
//
//     before the first step    rnn_begin
//     a step                   products = R factors;  rnn_forward
//     or, reset before         products of r, z;  rnn_forward_reset: factors r h;  product of n;  rnn_forward
//
// Reads INPUT once and the products and carried states from L2; a step costs its two launches until
// rows * width * (gates + states) fill the memory system.
#pragma once

#include "cuda/kernels/rnn_element.cuh"

namespace flashscan::cuda {

// Leaves the states as they enter `step`, for it and its product. Owner n has them so far, after the step before.
template <typename X, int S>
__device__ __forceinline__ void enter_step(const RnnParams& p, const RnnElement& e, int64_t step, int64_t n,
                                           typename Element<X>::Wide (&state)[S]) {
    using Wide = typename Element<X>::Wide;
    const int64_t next = owner_of(p, e, step);
    if (next != n) {
        store_states(p, e, p.state_out, n, state);
        load_states(p, e, p.state_in, next, state);
    }
    if (step >= p.time) return;
    const bool reset = resets(p, e, step);
    for (int s = 0; s < S; ++s) {
        if (reset) state[s] = Wide(0);
        static_cast<Wide*>(p.states)[e.carried(p, s)] = state[s];
    }
    store_narrow<X>(p.factors, e.factor(p), state[0]);
}

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_begin(RnnParams p) {
    const RnnElement e(p);
    if (!e.inside(p)) return;
    typename Element<X>::Wide state[Cell::states] = {};
    enter_step<X>(p, e, 0, -1, state);
}

// The factors r h of the product of n.
template <typename X>
__global__ void __launch_bounds__(rnn_threads) rnn_forward_reset(RnnParams p, int64_t step) {
    using Cell = GruResetBeforeCell;
    using Wide = typename Element<X>::Wide;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    const int64_t n = owner_of(p, e, step);
    Wide pre = 0, factor = 0;
    if (n >= 0) {
        pre = load_wide<X>(p.input, e.tensor(p.input_strides, 0, time_of(p, step)));
        if (p.bias != nullptr) pre += static_cast<const Wide*>(p.bias)[e.w];
    }
    ptx::wait_for_launch_before();
    if (n >= 0) {
        pre += static_cast<const Wide*>(p.products)[e.product(p, Cell::gates, 0)];
        factor = Cell::reset(pre, static_cast<const Wide*>(p.states)[e.carried(p, 0)]);
    }
    store_narrow<X>(p.reset_factors, e.factor(p), factor);
}

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_forward(RnnParams p, int64_t step) {
    using Wide = typename Element<X>::Wide;
    constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, K = Cell::kept;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    const int64_t t = time_of(p, step), n = owner_of(p, e, step);
    Wide state[S], pre[P] = {};
    if (n >= 0) {
        for (int g = 0; g < G; ++g) pre[g] = load_wide<X>(p.input, e.tensor(p.input_strides, g, t));
        if (p.bias != nullptr)
            for (int j = 0; j < P; ++j) pre[j] += static_cast<const Wide*>(p.bias)[j * p.width + e.w];
    }
    ptx::wait_for_launch_before();
    for (int s = 0; s < S; ++s) state[s] = static_cast<const Wide*>(p.states)[e.carried(p, s)];
    if (n >= 0) {
        Wide keep[K];
        for (int g = 0; g < G; ++g) pre[Cell::recurrent(g)] += static_cast<const Wide*>(p.products)[e.product(p, G, g)];
        Cell::forward(pre, state, keep);
        for (int s = 0; s < S; ++s)
            if (s < p.output_states) store_narrow<X>(p.output, e.tensor(p.output_strides, s, t), state[s]);
        if (p.kept != nullptr)
            for (int k = 0; k < K; ++k) static_cast<Wide*>(p.kept)[e.kept(p, K, k, t)] = keep[k];
    }
    enter_step<X>(p, e, step + 1, n, state);
}

}  // namespace flashscan::cuda
