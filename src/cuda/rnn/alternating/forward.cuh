// SPDX-License-Identifier: Apache-2.0
// The kernels of "alternating", forward: recurrent networks step by step, a matrix product by cuBLAS and a launch of
// these kernels for each. The kernel "persistent" runs the same steps inside one launch.
//
//     raw = INPUT[t] + R h[t-1] + BIAS;   h[t], states[t] = cell(raw, states[t-1])
//
//     before the first step    rnn_begin
//     each step                product: products = R factors;  rnn_forward
//     each step of a cell      product for all gates but the last;  rnn_forward_reset: factors r h, r being the first
//     that resets before       gate;  product for the last gate;  rnn_forward
//     the product
//
// Ownership  A thread has an element (row, head, unit): it adds INPUT, BIAS and the products of its gates, runs the
//            cell, and stores the states and the factor of the next product.
// Bytes      INPUT is read once, OUTPUT and RESERVE are written once; products and carried states are read from L2.
// Sync       Launches follow each other on the stream; a launch may begin before the one ahead of it has ended
//            (element.cuh).
// Limits     None. A step takes the time of its two launches until rows * width * (gates + states) are enough to keep
//            the memory system busy.
#pragma once

#include "cuda/rnn/element.cuh"

namespace flashscan::cuda {

// Turns `state`, the states after the step before, whose owner is n, into those that enter `step`: where the owner
// changes, stores them and loads those of the new owner; a reset makes them zero.
template <typename Wide, int S>
__device__ __forceinline__ void enter_step(const RnnParams& p, const RnnElement& e, int64_t step, int64_t n,
                                           Wide (&state)[S]) {
    const int64_t next = owner_of(p, e, step);
    if (next != n) {
        store_states(p, e, p.state_out, n, state);
        load_states(p, e, p.state_in, next, state);
    }
    if (step < p.time && resets(p, e, step))
        for (int s = 0; s < S; ++s) state[s] = Wide(0);
}

// The work of a thread in one step.
template <typename X, typename Cell>
class RnnForwardStep {
    static constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, K = Cell::kept;

  public:
    using Wide = typename Element<X>::Wide;
    using Real = RnnStepReal<X>;

    // Loads what the step needs of the call's tensors, which no launch before this one writes.
    __device__ __forceinline__ void load(const RnnParams& p, const RnnElement& e, int64_t step) {
        t_ = time_of(p, step), n_ = owner_of(p, e, step);
        if (n_ < 0) return;
        for (int g = 0; g < G; ++g) pre_[g] = load_wide<X>(p.input, e.tensor(p.input_strides, g, t_));
        if (p.bias != nullptr)
            for (int j = 0; j < P; ++j) pre_[j] += static_cast<const Wide*>(p.bias)[j * p.width + e.w];
    }
    // Runs the cell; `product(g)` returns the element's R factors of gate g.
    template <typename Product>
    __device__ __forceinline__ void run(const Product& product, Wide (&state)[S]) {
        if (n_ < 0) return;
        for (int g = 0; g < G; ++g) pre_[Cell::recurrent(g)] += product(g);
        Real pre[P], now[S], keep[K];
        as_numbers(pre_, pre);
        as_numbers(state, now);
        Cell::forward(pre, now, keep);
        as_values(keep, keep_);
        as_values(now, state);
        as_values(now, after_);
    }
    // Returns r h, the factor of the last gate's product.
    __device__ __forceinline__ Wide reset(Wide product, Wide h) const {
        return n_ < 0 ? Wide(0) : value_of(Cell::reset(Real(pre_[0] + product), Real(h)));
    }
    __device__ __forceinline__ void store(const RnnParams& p, const RnnElement& e) const {
        if (n_ < 0) return;
        for (int s = 0; s < S; ++s)
            if (s < p.output_states) store_narrow<X>(p.output, e.tensor(p.output_strides, s, t_), after_[s]);
        if (p.kept != nullptr)
            for (int k = 0; k < K; ++k) static_cast<Wide*>(p.kept)[e.kept(p, K, k, t_)] = keep_[k];
    }
    __device__ __forceinline__ int64_t owner() const { return n_; }

  private:
    int64_t t_ = 0, n_ = -1;
    Wide pre_[P] = {}, keep_[K], after_[S];
};

// Stores the states for the next step, and h for its product.
template <typename X, typename Wide, int S>
__device__ __forceinline__ void hand_on(const RnnParams& p, const RnnElement& e, const Wide (&state)[S]) {
    for (int s = 0; s < S; ++s) static_cast<Wide*>(p.states)[e.carried(p, s)] = state[s];
    store_narrow<X>(p.factors, e.factor(p), state[0]);
}

// Stores the states that enter the first step.
template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_begin(RnnParams p) {
    const RnnElement e(p);
    if (!e.inside(p)) return;
    typename Element<X>::Wide state[Cell::states] = {};
    enter_step(p, e, 0, -1, state);
    hand_on<X>(p, e, state);
}

// Stores r h, the factors of the last gate's product, of cells that reset before the product.
template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_forward_reset(RnnParams p, int64_t step) {
    using Step = RnnForwardStep<X, Cell>;
    using Wide = typename Step::Wide;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    Step work;
    work.load(p, e, step);
    ptx::wait_for_launch_before();
    const Wide product = static_cast<const Wide*>(p.products)[e.product(p, Cell::gates, 0)];
    store_narrow<X>(p.reset_factors, e.factor(p),
                    work.reset(product, static_cast<const Wide*>(p.states)[e.carried(p, 0)]));
}

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_threads) rnn_forward(RnnParams p, int64_t step) {
    using Step = RnnForwardStep<X, Cell>;
    using Wide = typename Step::Wide;
    const RnnElement e(p);
    if (!e.inside(p)) return;
    Step work;
    work.load(p, e, step);
    ptx::wait_for_launch_before();
    Wide state[Cell::states];
    for (int s = 0; s < Cell::states; ++s) state[s] = static_cast<const Wide*>(p.states)[e.carried(p, s)];
    work.run([&](int g) { return static_cast<const Wide*>(p.products)[e.product(p, Cell::gates, g)]; }, state);
    work.store(p, e);
    enter_step(p, e, step + 1, work.owner(), state);
    if (step + 1 < p.time) hand_on<X>(p, e, state);
}

}  // namespace flashscan::cuda
