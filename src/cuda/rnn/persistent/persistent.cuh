// SPDX-License-Identifier: Apache-2.0
// The kernel "persistent": recurrent networks in one launch for every cell and dtype. A team of blocks (a cluster, or a
// part of a cooperative grid) runs the steps of the kernels in rnn/alternating/ with a barrier in place of each launch.
//
//     forward     raw = INPUT[t] + R h[t-1] + BIAS;   h[t], states[t] = cell(raw, states[t-1])
//     backward    d_states[t-1], d_raw[t] = cell'(d_states[t] + R^T d_raw[t+1], states[t-1], kept[t])
//
// Ownership  A team owns a job, a head and some rows, from its first step to its last, then its next job. A block owns
//            some units of the head and the rows of R of their gates, which stay in shared memory as far as they fit.
//            A block has 512 threads; a thread has an element (row, unit).
// Bytes      INPUT, OUTPUT and RESERVE are moved once. Forward, h goes to all blocks of the team, through L2 or, in a
//            cluster, from shared memory to shared memory; backward, the gradients of a block's units times its rows of
//            R go through L2 to the blocks of the others. Rows of R that do not fit are read through L2 every step.
// Sync       The team has one barrier in each step: a counter in L2 (0.8 to 0.9 us on an H200) or the cluster's barrier
//            (0.2 us). Cells that reset before the product have two.
// Limits     8 rows of vectors must fit shared memory. All blocks run at once: by a cooperative launch, or in clusters.
//            It is tried after diagonal/, decode/ and fused/, which are faster where they apply: f64, cells that reset
//            before the product, and heads too large for "fused" come here.
#pragma once

#include "cuda/rnn/alternating/backward.cuh"
#include "cuda/rnn/alternating/forward.cuh"
#include "cuda/rnn/persistent/block.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_persistent_threads, 1)
    rnn_persistent_forward(const __grid_constant__ RnnPersistentParams f) {
    extern __shared__ __align__(128) unsigned char shared[];
    using Wide = typename Element<X>::Wide;
    constexpr int G = Cell::gates, together = Cell::resets_before ? G - 1 : G;
    const RnnParams& p = f.p;
    const auto factors = [&](int64_t step) {
        return static_cast<X*>(p.factors) + (step & 1) * p.rows * f.heads * p.padded;
    };
    RnnPersistentBlock<X> block(f, shared, together);
    for (int job = block.team(); job < f.heads * f.s.groups; job += f.s.teams) {
        block.begin(job);
        const RnnElement e = block.element();
        const bool inside = block.inside();
        Wide state[Cell::states] = {};
        if (inside) {
            enter_step(p, e, 0, -1, state);
            block.publish(factors(0), state[0]);
        }
        block.arrive_with_vectors();
        for (int64_t step = 0; step < p.time; ++step) {
            RnnForwardStep<X, Cell> work;
            if (inside) work.load(p, e, step);
            block.wait();
            block.template gather<0>(factors(step));
            Wide product[G] = {};
            if (inside) block.template gathered<0, 0, together>(product);
            if constexpr (Cell::resets_before) {
                if (inside) block.publish(static_cast<X*>(p.reset_factors), work.reset(product[0], state[0]));
                block.arrive_with_vectors();
                block.wait();
                block.template gather<1>(static_cast<const X*>(p.reset_factors));
                if (inside) block.template gathered<1, together, G>(product);
            }
            if (inside) {
                work.run([&](int g) { return product[g]; }, state);
                enter_step(p, e, step + 1, work.owner(), state);
                if (step + 1 < p.time) block.publish(factors(step + 1), state[0]);
            }
            if (step + 1 < p.time) block.arrive_with_vectors();
            if (inside) work.store(p, e);
        }
    }
}

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_persistent_threads, 1)
    rnn_persistent_backward(const __grid_constant__ RnnPersistentParams f) {
    extern __shared__ __align__(128) unsigned char shared[];
    using Wide = typename Element<X>::Wide;
    constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states;
    constexpr int together = Cell::resets_before ? G - 1 : G;
    const RnnParams& p = f.p;
    const int units = f.s.units;
    const auto at = [&](void* data, int64_t step, int64_t row) -> void* {
        return data == nullptr ? nullptr : static_cast<X*>(data) + (step - f.first) * p.rows * row;
    };
    RnnPersistentBlock<X> block(f, shared, together);
    for (int job = block.team(); job < f.heads * f.s.groups; job += f.s.teams) {
        block.begin(job);
        const RnnElement e = block.element();
        const bool inside = block.inside();
        // From the step after: the gradients of its states, and the gradient of h that came through R.
        Wide carried[S] = {}, through = 0, sums[P] = {};
        if (inside && f.end < p.time) {
            for (int s = 0; s < S; ++s) carried[s] = static_cast<const Wide*>(p.states)[e.carried(p, s)];
            through = static_cast<const Wide*>(p.through)[e.factor(p)];
        }
        if (inside) load_sums(p, e, f.end - 1, sums);
        const auto after = [&](Wide(&to)[S]) {
            for (int s = 0; s < S; ++s) to[s] = carried[s];
            return through;
        };
        for (int64_t step = f.end - 1; step >= f.first; --step) {
            RnnBackwardStep<X, Cell> work;
            if (inside) work.load(p, e, step);
            if (step + 1 < f.end) {
                block.wait();
                through += block.scattered();
            }
            if (inside) {
                Wide carry[S];
                leave_step<Cell>(p, e, step + 1, work.n, after, carry);
                work.run(p, e, step, carry);
                for (int s = 0; s < S; ++s) carried[s] = carry[s];
            }
            through = 0;
            if constexpr (Cell::resets_before) {
                block.give(together, work.d_pre[together]);
                block.scatter(together * units, G * units);
                block.arrive();
                block.wait();
                const Wide product = block.scattered();
                if (inside) through = work.run_reset(product);
            }
            for (int g = 0; g < together; ++g) block.give(g, work.d_pre[Cell::recurrent(g)]);
            block.scatter(0, together * units);
            block.arrive();
            if (inside) {
                const int64_t factor = f.heads * p.padded;
                store_gradients<X, Cell, 0, G>(p, e, step, work.n, work.d_pre, at(p.gradients, step, factor * G));
                work.store_factors(p, e, at(p.factors, step, factor), at(p.reset_factors, step, factor));
                for (int j = 0; j < P; ++j) sums[j] += work.d_pre[j];
            }
        }
        block.wait();
        through += block.scattered();
        if (!inside) continue;
        const Wide none[P] = {};
        store_sums<0, P>(p, e, none, sums);
        if (f.first > 0) {
            for (int s = 0; s < S; ++s) static_cast<Wide*>(p.states)[e.carried(p, s)] = carried[s];
            static_cast<Wide*>(p.through)[e.factor(p)] = through;
        } else {
            Wide carry[S];
            leave_step<Cell>(p, e, 0, -1, after, carry);
        }
    }
}

}  // namespace flashscan::cuda
