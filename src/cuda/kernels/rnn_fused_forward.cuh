// SPDX-License-Identifier: Apache-2.0
// Recurrent networks forward in one launch: a team of blocks keeps R of a head on chip and walks its rows from the first
// step to the last (rnn_team.cuh).
//
//     raw = INPUT[t] + R h[t-1] + BIAS;   h[t], states[t] = cell(raw, states[t-1])
//
// A lane owns elements (unit, row): it gets their gates out of the product, carries their states in registers, runs the
// cell and hands h to the team before it stores anything else. INPUT of the next step is loaded before the product.
//
// Moves INPUT, OUTPUT and RESERVE once. A step takes, one after the other: h through L2 (or shared memory), the
// products of a block, 6 cycles for each of its left operands in each of the SM's four partitions, the addition of
// parts, the cell: about 0.7 us at D = 768, most of it the way through L2.
#pragma once

#include "cuda/kernels/rnn_fused_element.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell, typename S>
class RnnForwardJob {
    static constexpr int G = Cell::gates, P = Cell::biases, N = Cell::states, K = Cell::kept, own = S::own;

  public:
    __device__ __forceinline__ RnnForwardJob(const RnnFusedParams& f, const RnnJob<S>& job) : f_(f), job_(job) {}

    // R as left operand: rows are units of this block, k units of the head.
    __device__ __forceinline__ void load_weights(TeamWeights<S>& weights) const {
        const int64_t padded = f_.p.padded;
        const X* const from = static_cast<const X*>(f_.weights) + job_.head * G * padded * padded;
        weights.fill([&](int unit, int gate, int k) {
            const int64_t out = job_.block * S::units + unit;
            if (out >= padded || k >= padded) return uint4{};
            return *reinterpret_cast<const uint4*>(from + (gate * padded + out) * padded + k);
        });
    }

    // The states before the first step, and their h for the team.
    __device__ __forceinline__ void begin(const TeamVectors<S>& vectors, int64_t turn) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i, K);
            load_states(f_.p, e, f_.p.state_in, state_[i]);
#pragma unroll
            for (int j = 0; j < P; ++j)
                bias_[i][j] = f_.p.bias != nullptr && e.inside
                                  ? static_cast<const float*>(f_.p.bias)[j * f_.p.width + e.w]
                                  : 0.0F;
            load_input(e, i, 0);
            cut_[i] = cuts(f_.p, e, 0);
            hand_on(vectors, turn, i);
        }
    }

    __device__ __forceinline__ void step(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, float* partials,
                                         int64_t turn, int64_t step) {
        float input[own][G], sums[own][G];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i, K);
#pragma unroll
            for (int g = 0; g < G; ++g) input[i][g] = Element<X>::widen(next_[i][g]);
            load_input(e, i, step + 1);
            cut_[i] = cuts(f_.p, e, step + 1);
        }
        const int used = f_.blocks * S::units;
        team_product<X, S>(
            weights, vectors, turn, partials, [used](int k) { return k < used; }, sums);
        const int64_t t = time_of(f_.p, step);
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if (S::elements % S::parts != 0 && !TeamElement<S>(i).exists) continue;
            const RnnOwn<S> e(f_, job_, i, K);
            float pre[P], keep[K];
#pragma unroll
            for (int j = 0; j < P; ++j) pre[j] = bias_[i][j];
#pragma unroll
            for (int g = 0; g < G; ++g) pre[g] += input[i][g];
#pragma unroll
            for (int g = 0; g < G; ++g) pre[Cell::recurrent(g)] += sums[i][g];
            Cell::forward(pre, state_[i], keep);
            float after[N];
#pragma unroll
            for (int s = 0; s < N; ++s) after[s] = state_[i][s];
            if (step + 1 < f_.p.time) hand_on(vectors, turn + 1, i);
            if (!e.inside) continue;
#pragma unroll
            for (int s = 0; s < N; ++s)
                if (s < f_.p.output_states) store_narrow<X>(f_.p.output, e.tensor(f_.p.output_strides, s, t), after[s]);
            if (f_.p.kept != nullptr) {
                float* const kept = static_cast<float*>(f_.p.kept) + t * RnnOwn<S>::kept_step(f_, K) + e.kept;
#pragma unroll
                for (int k = 0; k < K; ++k) kept[k * 64] = keep[k];
            }
            if (step + 1 == f_.p.time) store_states(f_.p, e, f_.p.state_out, after);
        }
    }

  private:
    __device__ __forceinline__ void load_input(const RnnOwn<S>& e, int i, int64_t step) {
        const bool there = e.inside && step < f_.p.time;
        const X* const from = static_cast<const X*>(f_.p.input);
#pragma unroll
        for (int g = 0; g < G; ++g)
            next_[i][g] = there ? from[e.tensor(f_.p.input_strides, g, time_of(f_.p, step))] : Element<X>::narrow(0.0F);
    }
    // h of the turn, after a reset before it.
    __device__ __forceinline__ void hand_on(const TeamVectors<S>& vectors, int64_t turn, int i) {
        if (S::elements % S::parts != 0 && !TeamElement<S>(i).exists) return;
        if (cut_[i])
#pragma unroll
            for (int s = 0; s < N; ++s) state_[i][s] = 0.0F;
        const RnnOwn<S> e(f_, job_, i, K);
        vectors.put(turn, e.team_row, e.unit, bits_of<X>(state_[i][0]));
    }

    const RnnFusedParams& f_;
    RnnJob<S> job_;
    float state_[own][N], bias_[own][P];
    X next_[own][G];
    bool cut_[own];
};

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_forward(const __grid_constant__ RnnFusedParams f) {
    extern __shared__ __align__(128) unsigned char shared[];
    float* const partials = reinterpret_cast<float*>(shared);
    const int team = static_cast<int>(blockIdx.x) / f.blocks;
    const TeamVectors<S> vectors(vectors_memory<S>(f, team, shared));
    TeamWeights<S> weights;
    int head = -1;
    int64_t turn = 0;
    for (int index = team; index < f.jobs; index += f.teams) {
        const RnnJob<S> job(f, index);
        RnnForwardJob<X, Cell, S> work(f, job);
        if (job.head != head) work.load_weights(weights);
        head = job.head;
        work.begin(vectors, turn);
        for (int64_t step = 0; step < f.p.time; ++step, ++turn) {
            if constexpr (S::local) __syncthreads();
            work.step(weights, vectors, partials, turn, step);
            empty_slots<S, 1>(f, job, vectors, turn);
        }
    }
}

}  // namespace flashscan::cuda
