// SPDX-License-Identifier: Apache-2.0
// Recurrent networks backward, in turns with products, from the last step to the first: one thread per element takes
// what reaches h through the R of the step after, runs the cell's backward and leaves the gradients of the products.
//
//     a step                   rnn_backward;  through = R^T gradients
//     or, reset before         rnn_backward;  through = R_n^T;  rnn_backward_reset;  through += R_r^T, R_z^T
//     after the first step     rnn_backward of step -1
//
// Every step's gradients and factors keep a place of their own, so that one product gives the gradient of R for many.
#pragma once

#include "cuda/kernels/rnn_element.cuh"

namespace flashscan::cuda {

template <typename Wide>
__device__ __forceinline__ Wide clipped(Wide x, Wide limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

template <typename Wide, int K>
__device__ __forceinline__ void load_kept(const RnnParams& p, const RnnElement& e, int64_t t, Wide (&keep)[K]) {
    for (int k = 0; k < K; ++k) keep[k] = static_cast<const Wide*>(p.kept)[e.kept(p, K, k, t)];
}

// The states before `step` of owner n, as far as its backward looks at them, and the h that entered its product.
template <typename X, typename Cell>
__device__ __forceinline__ void load_previous(const RnnParams& p, const RnnElement& e, int64_t step, int64_t n,
                                              typename Element<X>::Wide (&state)[Cell::states],
                                              typename Element<X>::Wide& h) {
    using Wide = typename Element<X>::Wide;
    const bool reset = resets(p, e, step), first = owner_of(p, e, step - 1) != n;
    if (reset || first) {
        load_states(p, e, p.state_in, reset ? -1 : n, state);
        h = state[0];
        return;
    }
    Wide keep[Cell::kept];
    const int64_t t = time_of(p, step - 1);
    load_kept(p, e, t, keep);
    for (int s = 0; s < Cell::states; ++s) state[s] = Wide(0);
    Cell::states_of(keep, state);
    h = load_wide<X>(p.output, e.tensor(p.output_strides, 0, t));
}

// The gradients of the states after the step before `next`, whose owner is n; where they leave a sequence at `next`,
// they are GRAD|STATE_IN.
template <typename X, typename Cell>
__device__ __forceinline__ void leave_step(const RnnParams& p, const RnnElement& e, int64_t next, int64_t n,
                                           typename Element<X>::Wide (&carry)[Cell::states]) {
    using Wide = typename Element<X>::Wide;
    for (int s = 0; s < Cell::states; ++s) carry[s] = Wide(0);
    const int64_t owner = owner_of(p, e, next);
    if (owner < 0 || (owner != n && p.grad_state_in == nullptr)) return;
    if (!resets(p, e, next)) {
        for (int s = 0; s < Cell::states; ++s) carry[s] = static_cast<const Wide*>(p.states)[e.carried(p, s)];
        carry[0] += clipped(static_cast<const Wide*>(p.through)[e.factor(p)], static_cast<Wide>(p.clip));
    }
    if (owner == n) return;
    Wide state[Cell::states];
    load_states(p, e, p.state_in, owner, state);
    Cell::leave(state, carry);
    store_states(p, e, p.grad_state_in, owner, carry);
    for (int s = 0; s < Cell::states; ++s) carry[s] = Wide(0);
}

// The sums for GRAD|BIAS before `step`.
template <typename Wide, int P>
__device__ __forceinline__ void load_sums(const RnnParams& p, const RnnElement& e, int64_t step, Wide (&sums)[P]) {
    for (int j = 0; j < P; ++j)
        sums[j] = p.bias_sums != nullptr && step + 1 < p.time ? static_cast<const Wide*>(p.bias_sums)[e.carried(p, j)]
                                                              : Wide(0);
}

// The gradients of the pre-activations of gates First to End: to the products' gradients, to GRAD|INPUT, to the sums.
template <typename X, typename Cell, int First, int End>
__device__ __forceinline__ void store_gradients(const RnnParams& p, const RnnElement& e, int64_t step, int64_t n,
                                                const typename Element<X>::Wide (&d_pre)[Cell::biases],
                                                const typename Element<X>::Wide (&sums)[Cell::biases]) {
    using Wide = typename Element<X>::Wide;
    for (int g = First; g < End; ++g)
        store_narrow<X>(p.gradients, e.product(p, Cell::gates, g), d_pre[Cell::recurrent(g)]);
    if (n >= 0 && p.grad_input != nullptr)
        for (int g = First; g < End; ++g)
            store_narrow<X>(p.grad_input, e.tensor(p.input_strides, g, time_of(p, step)), d_pre[g]);
    if (p.bias_sums == nullptr) return;
    for (int j = First; j < (End == Cell::gates ? Cell::biases : End); ++j)
        static_cast<Wide*>(p.bias_sums)[e.carried(p, j)] = sums[j] + d_pre[j];
}

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_backward(RnnParams p, int64_t step) {
    using Wide = typename Element<X>::Wide;
    constexpr int S = Cell::states, K = Cell::kept, P = Cell::biases;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    const int64_t n = owner_of(p, e, step);
    Wide carry[S], d_pre[P] = {}, sums[P], h = 0, reset_h = 0;
    Wide keep[K], given[S] = {}, previous[S];
    if (n >= 0) {
        const int64_t t = time_of(p, step);
        load_kept(p, e, t, keep);
        for (int s = 0; s < S; ++s)
            if (s < p.output_states) given[s] = load_wide<X>(p.grad_output, e.tensor(p.output_strides, s, t));
        load_previous<X, Cell>(p, e, step, n, previous, h);
    }
    ptx::wait_for_launch_before();
    leave_step<X, Cell>(p, e, step + 1, n, carry);
    if (step < 0) return;
    load_sums(p, e, step, sums);
    if (n >= 0) {
        if (owner_of(p, e, step + 1) != n) {
            Wide last[S];
            load_states(p, e, p.grad_state_out, n, last);
            Cell::enter(last, keep, carry);
        }
        Cell::enter(given, keep, carry);
        Cell::backward(keep, previous, carry, d_pre);
        if constexpr (resets_before<Cell>) reset_h = keep[0] * previous[0];
    }
    for (int s = 0; s < S; ++s) static_cast<Wide*>(p.states)[e.carried(p, s)] = carry[s];
    store_gradients<X, Cell, resets_before<Cell> ? 1 : 0, Cell::gates>(p, e, step, n, d_pre, sums);
    if (p.factors != nullptr) store_narrow<X>(p.factors, e.factor(p), h);
    if constexpr (resets_before<Cell>)
        if (p.reset_factors != nullptr) store_narrow<X>(p.reset_factors, e.factor(p), reset_h);
}

// `through` holds what reaches r h, and takes what of it reaches h.
template <typename X>
__global__ void __launch_bounds__(rnn_threads) rnn_backward_reset(RnnParams p, int64_t step) {
    using Cell = GruResetBeforeCell;
    using Wide = typename Element<X>::Wide;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    const int64_t n = owner_of(p, e, step);
    Wide d_pre[Cell::biases] = {}, sums[Cell::biases], through = 0;
    Wide keep[Cell::kept], previous[Cell::states], h;
    if (n >= 0) {
        load_kept(p, e, time_of(p, step), keep);
        load_previous<X, Cell>(p, e, step, n, previous, h);
    }
    ptx::wait_for_launch_before();
    load_sums(p, e, step, sums);
    if (n >= 0) {
        const Wide product = static_cast<const Wide*>(p.through)[e.factor(p)];
        through = Cell::backward_reset(keep, previous, product, d_pre);
    }
    static_cast<Wide*>(p.through)[e.factor(p)] = through;
    store_gradients<X, Cell, 0, 1>(p, e, step, n, d_pre, sums);
}

}  // namespace flashscan::cuda
