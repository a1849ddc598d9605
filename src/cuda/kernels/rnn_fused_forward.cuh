// SPDX-License-Identifier: Apache-2.0
// Recurrent networks forward in one launch: a team of blocks keeps R of a head on chip and walks its rows from the first
// step to the last (rnn_team.cuh).
//
//     raw = INPUT[t] + R h[t-1] + BIAS;   h[t], states[t] = cell(raw, states[t-1])
//
// A lane owns elements (unit, row): it gets their gates out of the product, carries their states in registers, runs the
// cell and hands h to the team; what the step made is stored while the next product waits for its operands. INPUT is
// fetched into L2 eight steps ahead, into registers one step ahead.
//
// Moves INPUT, OUTPUT and RESERVE once. A step takes, one after the other: h through L2 (or shared memory), the
// products of a block, 6 cycles for each of its left operands in each of the SM's four partitions, the addition of
// parts, the cell. On an H200 that is 1.4 us at D = 768, in f32 1.8 us at 512.
#pragma once

#include "cuda/kernels/rnn_fused_element.cuh"
#include "cuda/ptx/held.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell, typename S>
class RnnForwardJob {
    static constexpr int G = Cell::gates, P = Cell::biases, N = Cell::states, K = Cell::kept, own = S::own;
    using Real = typename TeamNumber<X>::Real;
    using Kept = RnnKept<X, Cell>;
    // While the ring is asked, where that does not take the lane's registers.
    static constexpr bool stores_late = S::kind == Team::grid && own == 1;

  public:
    __device__ __forceinline__ RnnForwardJob(const RnnFusedParams& f, int index)
        : f_(f),
          job_(f, index),
          kept_step_(ptx::held(RnnOwn<S>::kept_step(f, Kept::count) * (f.p.reverse != 0 ? -1 : 1))),
          input_step_(ptx::held(f.p.input_strides.time * (f.p.reverse != 0 ? -1 : 1))),
          output_step_(ptx::held(f.p.output_strides.time * (f.p.reverse != 0 ? -1 : 1))),
          gate_step_(ptx::held(f.p.input_strides.state)),
          fetched_gate_(static_cast<int>(threadIdx.x) / 4 % 8),
          fetch_(ptx::held((rnn_steps_ahead - 1) * input_step_ + fetched_gate_ * gate_step_)) {}

    __device__ __forceinline__ const RnnJob<S>& job() const { return job_; }

    // The states before the first step, and their h for the team.
    __device__ __forceinline__ void begin(const TeamVectors<S>& vectors, uint32_t turn) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            const RnnRowSteps steps(f_, e.row);
            const int64_t t = steps.first;
            steps_[i] = e.inside ? steps.count : 0;
            fetch_steps_[i] = ptx::held(fetched_gate_ < G ? steps_[i] - rnn_steps_ahead : 0);
            place_[i] = vectors.place(TeamElement<S>(i).row, TeamElement<S>(i).unit);
            input_[i] = static_cast<const X*>(f_.p.input) + e.tensor(f_, f_.p.input_strides, t);
            output_[i] = static_cast<X*>(f_.p.output) + e.tensor(f_, f_.p.output_strides, t);
            kept_[i] = static_cast<float*>(f_.p.kept) + e.kept(f_, job_, Kept::count, t);
            reset_[i] = e.reset(f_, t);
            load_reset(i, 0);
#pragma unroll
            for (int g = 0; g < G; ++g) next_[i][g] = Element<X>::narrow(0.0F);
            load_states(f_.p, e, f_.p.state_in, state_[i]);
#pragma unroll
            for (int j = 0; j < P; ++j)
                bias_[i][j] = f_.p.bias != nullptr && e.inside
                                  ? static_cast<const float*>(f_.p.bias)[j * f_.p.width + e.w]
                                  : 0.0F;
            load_input(i, 0);
        }
        hand_on(vectors, turn);
    }

    __device__ __forceinline__ void step(const TeamWeights<S>& weights, const TeamVectors<S>& vectors,
                                         unsigned char* shared, uint32_t turn, int step) {
        float pre[own][P], sums[own][G];
        const auto stores = [&] {
            if (!TeamElement<S>::exist() || step == 0) return;
#pragma unroll
            for (int i = 0; i < own; ++i) store(i, step);
        };
        const auto early = [&] {
            if constexpr (!stores_late) stores();
            if (!TeamElement<S>::exist()) return;
#pragma unroll
            for (int i = 0; i < own; ++i) {
                begin_sums(i, pre[i]);
                input_[i] += input_step_;
                load_input(i, step + 1);
                load_reset(i, step + 1);
                if (step < fetch_steps_[i]) ptx::prefetch(input_[i] + fetch_);
            }
        };
        const auto late = [&] {
            if constexpr (stores_late) stores();
        };
        team_product<X>(weights, vectors, turn, shared, early, late, sums);
        if (TeamElement<S>::exist()) run_cell(pre, sums);
        if (step + 1 < job_.steps) hand_on(vectors, turn + 1);
#pragma unroll
        for (int i = 0; i < own; ++i)
            if (step + 1 == steps_[i]) [[unlikely]]
                store_states(f_.p, RnnOwn<S>(f_, job_, i), f_.p.state_out, after_[i]);
    }

    __device__ __forceinline__ void finish() {
        if (!TeamElement<S>::exist()) return;
#pragma unroll
        for (int i = 0; i < own; ++i) store(i, job_.steps);
    }

  private:
    __device__ __forceinline__ void run_cell(float (&pre)[own][P], const float (&sums)[own][G]) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            Real raw[P];
#pragma unroll
            for (int g = 0; g < G; ++g) pre[i][Cell::recurrent(g)] += sums[i][g];
#pragma unroll
            for (int j = 0; j < P; ++j) raw[j] = pre[i][j];
            Cell::forward(raw, state_[i], keep_[i]);
#pragma unroll
            for (int s = 0; s < N; ++s) after_[i][s] = state_[i][s];
        }
    }
    __device__ __forceinline__ void begin_sums(int i, float (&pre)[P]) const {
#pragma unroll
        for (int j = 0; j < P; ++j) pre[j] = bias_[i][j];
#pragma unroll
        for (int g = 0; g < G; ++g) pre[g] += Element<X>::widen(next_[i][g]);
    }
    __device__ __forceinline__ void load_input(int i, int step) {
        if (step >= steps_[i]) return;
#pragma unroll
        for (int g = 0; g < G; ++g) next_[i][g] = input_[i][g * gate_step_];
    }
    __device__ __forceinline__ void load_reset(int i, int step) {
        resets_[i] = f_.p.reset != nullptr && step < steps_[i] &&
                     f_.p.reset[reset_[i] + (f_.p.reverse != 0 ? -step : step)] != 0;
    }
    // h before a step for the team; nothing passes a reset.
    __device__ __forceinline__ void hand_on(const TeamVectors<S>& vectors, uint32_t turn) {
#pragma unroll
        for (int i = 0; i < own && TeamElement<S>::exist(); ++i) {
            if (resets_[i])
#pragma unroll
                for (int s = 0; s < N; ++s) state_[i][s] = 0.0F;
            // An element that is not there could hold NaN past a reset; its weights are 0, and 0 NaN is NaN.
            const TeamHalves<X> h(steps_[i] > 0 ? value_of(state_[i][0]) : 0.0F);
#pragma unroll
            for (int plane = 0; plane < S::planes; ++plane) {
                if constexpr (S::in_shared) {
                    vectors.put_half(turn, place_[i], plane, 0, h.bits[plane]);
                } else {
                    const uint32_t word = pair_halves(h.bits[plane], h.bits[plane]);
                    if (has_even_unit()) vectors.put(turn, place_[i], plane, 0, word);
                }
            }
        }
        vectors.send(turn);
    }
    // What the step before `step` made.
    __device__ __forceinline__ void store(int i, int step) {
        const bool there = step <= steps_[i];
#pragma unroll
        for (int s = 0; s < N; ++s)
            if (there && s < f_.p.output_states)
                store_narrow<X>(output_[i], s * f_.p.output_strides.state, value_of(after_[i][s]));
#pragma unroll
        for (int k = 0; k < Kept::count; ++k)
            if (there && f_.p.kept != nullptr) kept_[i][k * 8] = value_of(keep_[i][k]);
        output_[i] += output_step_;
        kept_[i] += kept_step_;
    }

    const RnnFusedParams& f_;
    RnnJob<S> job_;
    int64_t kept_step_, input_step_, output_step_, gate_step_;
    int fetched_gate_;  // 8 units of a gate and row are one sector of memory; the lane of each unit fetches another gate
    int64_t fetch_;
    const X* input_[own];  // here and below: of the step that is loaded next, or stored next
    X* output_[own];
    float* kept_[own];
    int64_t reset_[own];
    int place_[own];
    int steps_[own];  // of the row; 0: the element is not there
    int fetch_steps_[own];
    bool resets_[own];  // at the step that is loaded next
    Real state_[own][N], after_[own][N], keep_[own][K];
    float bias_[own][P];
    X next_[own][G];
};

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_forward(const __grid_constant__ RnnFusedParams f) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // clusters; the host asks for no less
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const shared = ptx::held_shared(memory);
    const TeamVectors<S> vectors(f, shared);
    vectors.begin();
    TeamWeights<S> weights(shared);
    int head = -1;
    uint32_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        RnnForwardJob<X, Cell, S> work(f, index);
        if (work.job().steps == 0) continue;
        if (work.job().head != head) load_weights(f, work.job(), weights);
        head = work.job().head;
        work.begin(vectors, turn);
        for (int step = 0; step < work.job().steps; ++step, ++turn) {
            work.step(weights, vectors, shared, turn, step);
            clear_slots(f, work.job(), vectors, turn);
        }
        work.finish();
    }
#endif
}

}  // namespace flashscan::cuda
