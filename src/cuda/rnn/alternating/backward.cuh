// SPDX-License-Identifier: Apache-2.0
// The kernels of "alternating", backward: recurrent networks step by step, from the last step to the first, a matrix
// product by cuBLAS and a launch of these kernels for each. "persistent" runs the same steps, and "fused" uses some of
// the functions.
//
//     d_states[t-1], d_raw[t] = cell'(d_states[t] + R^T d_raw[t+1], states[t-1], kept[t])
//
//     each step                rnn_backward;  product: through = R^T gradients
//     each step of a cell      rnn_backward;  product: through = R^T gradients of the last gate;
//     that resets before       rnn_backward_reset;  product: through += R^T gradients of the other gates
//     the product
//     after the first step     rnn_backward of step -1, for GRAD|STATE_IN
//
// Ownership  A thread has an element (row, head, unit): it reads the part of its h's gradient that came through R from
//            the step after, runs the cell's backward and stores the gradients of its gates for the products.
// Bytes      GRAD|OUTPUT, OUTPUT and RESERVE are read once, GRAD|INPUT is written once. Every step's gradients and
//            factors keep a place of their own, so that one product gives the gradient of R for many steps.
// Sync       As forward.cuh.
// Limits     As forward.cuh.
#pragma once

#include "cuda/rnn/element.cuh"

namespace flashscan::cuda {

template <typename Wide>
__device__ __forceinline__ Wide clipped(Wide x, Wide limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

template <typename Wide, int K>
__device__ __forceinline__ void load_kept(const RnnParams& p, const RnnElement& e, int64_t t, Wide (&keep)[K]) {
    for (int k = 0; k < K; ++k) keep[k] = static_cast<const Wide*>(p.kept)[e.kept(p, K, k, t)];
}

// Loads the states before `step`, whose owner is n, as far as the cell's backward needs them, and the h that entered
// the step's product.
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

// Computes the gradients of the states between `next` and the step before it, whose owner is n. `load(carry)` loads
// those that `next` left and returns the gradient of h that came through R. Where a sequence begins at `next`, they are
// stored as GRAD|STATE_IN and become zero.
template <typename Cell, typename Wide, typename Load>
__device__ __forceinline__ void leave_step(const RnnParams& p, const RnnElement& e, int64_t next, int64_t n,
                                           const Load& load, Wide (&carry)[Cell::states]) {
    for (int s = 0; s < Cell::states; ++s) carry[s] = Wide(0);
    const int64_t owner = owner_of(p, e, next);
    if (owner < 0 || (owner != n && p.grad_state_in == nullptr)) return;
    if (!resets(p, e, next)) {
        const Wide through = load(carry);
        carry[0] += clipped(through, static_cast<Wide>(p.clip));
    }
    if (owner == n) return;
    Wide state[Cell::states];
    load_states(p, e, p.state_in, owner, state);
    Cell::leave(state, carry);
    store_states(p, e, p.grad_state_in, owner, carry);
    for (int s = 0; s < Cell::states; ++s) carry[s] = Wide(0);
}

// Loads the sums for GRAD|BIAS over the steps after `step`; store_sums stores them with the gradients of `step` of the
// biases First to End added.
template <typename Wide, int P>
__device__ __forceinline__ void load_sums(const RnnParams& p, const RnnElement& e, int64_t step, Wide (&sums)[P]) {
    for (int j = 0; j < P; ++j)
        sums[j] = p.bias_sums != nullptr && step + 1 < p.time ? static_cast<const Wide*>(p.bias_sums)[e.carried(p, j)]
                                                              : Wide(0);
}
template <int First, int End, typename Wide, int P>
__device__ __forceinline__ void store_sums(const RnnParams& p, const RnnElement& e, const Wide (&d_pre)[P],
                                           const Wide (&sums)[P]) {
    if (p.bias_sums == nullptr) return;
    for (int j = First; j < End; ++j) static_cast<Wide*>(p.bias_sums)[e.carried(p, j)] = sums[j] + d_pre[j];
}

// Stores the gradients of the pre-activations of gates First to End, for the products and as GRAD|INPUT.
template <typename X, typename Cell, int First, int End, typename Wide>
__device__ __forceinline__ void store_gradients(const RnnParams& p, const RnnElement& e, int64_t step, int64_t n,
                                                const Wide (&d_pre)[Cell::biases], void* gradients) {
    for (int g = First; g < End && gradients != nullptr; ++g)
        store_narrow<X>(gradients, e.product(p, Cell::gates, g), d_pre[Cell::recurrent(g)]);
    if (n >= 0 && p.grad_input != nullptr)
        for (int g = First; g < End; ++g)
            store_narrow<X>(p.grad_input, e.tensor(p.input_strides, g, time_of(p, step)), d_pre[g]);
}

// The work of a thread in one step. In step -1 it only stores what leaves the first step.
template <typename X, typename Cell>
struct RnnBackwardStep {
    using Wide = typename Element<X>::Wide;
    using Real = RnnStepReal<X>;
    static constexpr int S = Cell::states, K = Cell::kept;
    int64_t n = -1;
    Wide h = 0, reset_h = 0;
    Wide keep[K], previous[S], given[S] = {}, d_pre[Cell::biases] = {};

    // Loads what the step needs of the call's tensors, which no launch before this one writes.
    __device__ __forceinline__ void load(const RnnParams& p, const RnnElement& e, int64_t step) {
        n = owner_of(p, e, step);
        if (n < 0) return;
        const int64_t t = time_of(p, step);
        load_kept(p, e, t, keep);
        for (int s = 0; s < S; ++s)
            if (s < p.output_states) given[s] = load_wide<X>(p.grad_output, e.tensor(p.output_strides, s, t));
        load_previous<X, Cell>(p, e, step, n, previous, h);
    }
    // Turns `carry`, the gradients of the states after the step, into those before it, without the part that will come
    // through R.
    __device__ __forceinline__ void run(const RnnParams& p, const RnnElement& e, int64_t step, Wide (&carry)[S]) {
        if (n < 0) return;
        if (owner_of(p, e, step + 1) != n) {
            Wide last[S];
            load_states(p, e, p.grad_state_out, n, last);
            Cell::enter(last, keep, carry);
        }
        Cell::enter(given, keep, carry);
        Real kept[K], before[S], carried[S], d[Cell::biases];
        as_numbers(keep, kept);
        as_numbers(previous, before);
        as_numbers(carry, carried);
        cell::backward<Cell>(kept, before, carried, d);
        as_values(carried, carry);
        as_values(d, d_pre);
        if constexpr (Cell::resets_before) reset_h = keep[0] * previous[0];
    }
    // Returns the part of `product`, the gradient of r h, that reaches h, and sets the gradient of r's pre-activation.
    __device__ __forceinline__ Wide run_reset(Wide product) {
        return n >= 0 ? Cell::backward_reset(keep, previous, product, d_pre) : Wide(0);
    }
    __device__ __forceinline__ void store_factors(const RnnParams& p, const RnnElement& e, void* factors,
                                                  void* reset_factors) const {
        if (factors != nullptr) store_narrow<X>(factors, e.factor(p), h);
        if constexpr (Cell::resets_before)
            if (reset_factors != nullptr) store_narrow<X>(reset_factors, e.factor(p), reset_h);
    }
};

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_backward(RnnParams p, int64_t step) {
    using Step = RnnBackwardStep<X, Cell>;
    using Wide = typename Step::Wide;
    constexpr int S = Cell::states, first = Cell::resets_before ? 1 : 0;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    Step work;
    work.load(p, e, step);
    Wide carry[S], sums[Cell::biases];
    ptx::wait_for_launch_before();
    const auto load = [&](Wide(&to)[S]) {
        for (int s = 0; s < S; ++s) to[s] = static_cast<const Wide*>(p.states)[e.carried(p, s)];
        return static_cast<const Wide*>(p.through)[e.factor(p)];
    };
    leave_step<Cell>(p, e, step + 1, work.n, load, carry);
    if (step < 0) return;
    load_sums(p, e, step, sums);
    work.run(p, e, step, carry);
    for (int s = 0; s < S; ++s) static_cast<Wide*>(p.states)[e.carried(p, s)] = carry[s];
    if constexpr (Cell::resets_before)
        if constexpr (Cell::first_acts_twice) static_cast<Wide*>(p.states)[e.carried(p, S)] = work.d_pre[0];
    store_gradients<X, Cell, first, Cell::gates>(p, e, step, work.n, work.d_pre, p.gradients);
    store_sums<first, Cell::biases>(p, e, work.d_pre, sums);
    work.store_factors(p, e, p.factors, p.reset_factors);
}

// For cells that reset before the product: on entry `through` is the gradient of r h, on exit its part that reaches h.
template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_backward_reset(RnnParams p, int64_t step) {
    using Step = RnnBackwardStep<X, Cell>;
    using Wide = typename Step::Wide;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    Step work;
    work.load(p, e, step);
    Wide sums[Cell::biases];
    ptx::wait_for_launch_before();
    load_sums(p, e, step, sums);
    Wide& through = static_cast<Wide*>(p.through)[e.factor(p)];
    if constexpr (Cell::first_acts_twice)
        work.d_pre[0] = static_cast<const Wide*>(p.states)[e.carried(p, Cell::states)];
    through = work.run_reset(through);
    store_gradients<X, Cell, 0, 1>(p, e, step, work.n, work.d_pre, p.gradients);
    store_sums<0, 1>(p, e, work.d_pre, sums);
}

}  // namespace flashscan::cuda
