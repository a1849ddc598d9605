// SPDX-License-Identifier: Apache-2.0
// The kernel "fused", rnn_fused_forward: one launch for all steps, with the weights on chip. It walks a recurrent
// network from the first step to the last. A team of blocks (one block, a cluster, or a part of a cooperative grid)
// keeps R of a head in registers and shared memory (team.cuh).
//
//     raw = INPUT[t] + R h[t-1] + BIAS;   h[t], states[t] = cell(raw, states[t-1])
//
// Ownership  A team owns a job, a head and a tile of rows, from its first step to its last, then its next job. A block
//            owns some units of the head and the rows of R of their gates; a warp has its part of those in registers. A
//            lane owns elements (unit, row): it takes their gates from the product, carries their states in registers,
//            runs the cell and passes h to the team. Either all warps do all of this, or warps are specialised
//            (warp_roles.cuh).
// Bytes      INPUT, OUTPUT and RESERVE are moved once. INPUT is prefetched into L2 eight steps ahead and loaded into
//            registers one step ahead; the results of a step are stored while the next product waits for its operands.
// Sync       The team exchanges h once a step by an all-gather (team_vectors.cuh); a barrier of the block precedes the
//            addition of its warps' partial sums.
// Limits     R of a head must fit the registers and shared memory of a team. Every dtype but f64, every cell but those
//            that reset before the product; compute capability 9.0 and newer.
// Why        A step takes the sum of these latencies: h through L2 (or shared memory), the products of a block, with 6
//            cycles for each of its left operands in each of the SM's four partitions, the addition of partial sums,
//            and the cell. On an H200 that is 1.1 us at D = 768 with 16 rows, 1.8 us with 64 rows in specialised warps,
//            and in f32 1.7 us at D = 512.
#pragma once

#include "cuda/device/ptx/held.cuh"
#include "cuda/rnn/fused/element.cuh"
#include "cuda/rnn/fused/warp_roles.cuh"

namespace flashscan::cuda {

// Offsets from a step to the next, which are kept in registers.
struct RnnForwardPace {
    int64_t kept, input, output, gate;
    // The gate whose INPUT the lane prefetches. 8 units of a gate and row share a sector of memory, and the lanes of
    // these units prefetch one gate each.
    int fetched_gate;
    int64_t fetch;
    __device__ __forceinline__ RnnForwardPace(const RnnParams& p, int64_t kept_step)
        : kept(ptx::held(kept_step * sign(p))),
          input(ptx::held(p.input_strides.time * sign(p))),
          output(ptx::held(p.output_strides.time * sign(p))),
          gate(ptx::held(p.input_strides.state)),
          fetched_gate(static_cast<int>(threadIdx.x) / 4 % 8),
          fetch(ptx::held((rnn_steps_ahead - 1) * input + fetched_gate * gate)) {}
    static __device__ __forceinline__ int64_t sign(const RnnParams& p) { return p.reverse != 0 ? -1 : 1; }
};

// A lane's work in one job: its elements from the first step to the last.
template <typename X, typename Cell, typename S>
class RnnForwardJob {
    static constexpr int G = Cell::gates, P = Cell::biases, N = Cell::states, K = Cell::kept, own = S::own;
    using Real = typename TeamNumber<X>::Real;
    using Kept = RnnKept<X, Cell>;
    // Whether results are stored while loads from the ring are under way; with more elements registers would not
    // suffice.
    static constexpr bool stores_late = S::kind == Team::grid && own == 1;

  public:
    __device__ __forceinline__ RnnForwardJob(const RnnFusedParams& f, const RnnForwardPace& pace, int index, int shift)
        : f_(f), pace_(pace), job_(f, index, shift) {}

    __device__ __forceinline__ const RnnJob<S>& job() const { return job_; }

    // Loads the states before the first step and passes their h to the team.
    __device__ __forceinline__ void begin(const TeamVectors<S>& vectors, uint32_t turn) {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            const RnnRowSteps steps(f_, e.row);
            const int64_t t = steps.first;
            steps_[i] = e.inside ? steps.count : 0;
            fetch_steps_[i] = ptx::held(pace_.fetched_gate < G ? steps_[i] - rnn_steps_ahead : 0);
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

    // Runs a step. `product(early, late, sums)` multiplies R by the h before the step and runs `early` and `late` while
    // it waits; `told` is called once the h after the step is put.
    template <typename Product, typename Told>
    __device__ __forceinline__ void step(const TeamVectors<S>& vectors, uint32_t turn, int step, const Product& product,
                                         const Told& told) {
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
                input_[i] += pace_.input;
                load_input(i, step + 1);
                load_reset(i, step + 1);
                if (step < fetch_steps_[i]) ptx::prefetch(input_[i] + pace_.fetch);
            }
        };
        const auto late = [&] {
            if constexpr (stores_late) stores();
        };
        product(early, late, sums);
        if (TeamElement<S>::exist()) run_cell(pre, sums);
        if (step + 1 < job_.steps) {
            hand_on(vectors, turn + 1);
            told();
        }
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
        for (int g = 0; g < G; ++g) next_[i][g] = input_[i][g * pace_.gate];
    }
    __device__ __forceinline__ void load_reset(int i, int step) {
        resets_[i] = f_.p.reset != nullptr && step < steps_[i] &&
                     f_.p.reset[reset_[i] + (f_.p.reverse != 0 ? -step : step)] != 0;
    }
    // Passes the h before a step to the team; a reset makes the states zero.
    __device__ __forceinline__ void hand_on(const TeamVectors<S>& vectors, uint32_t turn) {
#pragma unroll
        for (int i = 0; i < own && TeamElement<S>::exist(); ++i) {
            if (resets_[i])
#pragma unroll
                for (int s = 0; s < N; ++s) state_[i][s] = 0.0F;
            // An element that does not exist could hold NaN. It must pass 0, since its weight of 0 times NaN is NaN.
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
    // Stores the results of the step before `step`.
    __device__ __forceinline__ void store(int i, int step) {
        const bool there = step <= steps_[i];
#pragma unroll
        for (int s = 0; s < N; ++s)
            if (there && s < f_.p.output_states)
                store_narrow<X>(output_[i], s * f_.p.output_strides.state, value_of(after_[i][s]));
#pragma unroll
        for (int k = 0; k < Kept::count; ++k)
            if (there && f_.p.kept != nullptr) kept_[i][k * 8] = value_of(keep_[i][k]);
        output_[i] += pace_.output;
        kept_[i] += pace_.kept;
    }

    const RnnFusedParams& f_;
    const RnnForwardPace& pace_;
    RnnJob<S> job_;
    const X* input_[own];  // this and the next pointers are those of the step that is loaded, or stored, next
    X* output_[own];
    float* kept_[own];
    int64_t reset_[own];
    int place_[own];
    int steps_[own];  // steps of the element's row; 0 where the element does not exist
    int fetch_steps_[own];
    bool resets_[own];  // RESET of the step that is loaded next
    Real state_[own][N], after_[own][N], keep_[own][K];
    float bias_[own][P];
    X next_[own][G];
};

// A block's loop over its jobs where all warps do both products and cells.
template <typename X, typename Cell, typename S>
__device__ __forceinline__ void rnn_forward_alone(const RnnFusedParams& f, unsigned char* shared) {
    const TeamVectors<S> vectors(f, shared, 0);
    vectors.begin();
    const RnnForwardPace pace(f.p, RnnOwn<S>::kept_step(f, RnnKept<X, Cell>::count));
    TeamWeights<S> weights(shared);
    int head = -1;
    uint32_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        RnnForwardJob<X, Cell, S> work(f, pace, index, 0);
        if (work.job().steps == 0) continue;
        if (work.job().head != head) load_weights(f, work.job(), weights);
        head = work.job().head;
        work.begin(vectors, turn);
        weights.await();
        for (int step = 0; step < work.job().steps; ++step, ++turn) {
            const auto product = [&](auto early, auto late, auto& sums) {
                team_product<X>(weights, vectors, turn, shared, early, late, sums);
            };
            work.step(vectors, turn, step, product, [] {});
            clear_slots(f, work.job(), vectors, turn);
        }
        work.finish();
    }
}

// The loop of a warp that runs cells, where warps are specialised.
template <typename X, typename Cell, typename S>
__device__ __forceinline__ void rnn_forward_cells(const RnnFusedParams& f, unsigned char* shared, int shift) {
    const TeamVectors<S> vectors(f, shared, shift);
    const RnnForwardPace pace(f.p, RnnOwn<S>::kept_step(f, RnnKept<X, Cell>::count));
    uint32_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        RnnForwardJob<X, Cell, S> work(f, pace, index, shift);
        if (work.job().steps == 0) continue;
        work.begin(vectors, turn);
        TeamRoles<S>::tell_put(shift);
        for (int step = 0; step < work.job().steps; ++step, ++turn) {
            const auto product = [&](auto early, auto late, auto& sums) {
                team_take_sums(vectors, turn, shift, shared, early, late, sums);
            };
            work.step(vectors, turn, step, product, [=] { TeamRoles<S>::tell_put(shift); });
            clear_slots(f, work.job(), vectors, turn);
        }
        work.finish();
    }
}

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_forward(const __grid_constant__ RnnFusedParams f) {
// Older devices have no clusters; the host does not launch this kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const shared = ptx::held_shared(memory);
    if constexpr (S::cell_warps == 0) {
        rnn_forward_alone<X, Cell, S>(f, shared);
    } else if (TeamRoles<S>::multiplies()) {
        TeamRoles<S>::template set_registers<S::product_registers>();
        multiply_turns<X, S>(
            f, shared, [](const RnnJob<S>& job) { return job.steps; }, true);
    } else {
        TeamRoles<S>::template set_registers<S::cell_registers>();
        const int shift = TeamRoles<S>::shift();
        if (shift < 2) rnn_forward_cells<X, Cell, S>(f, shared, shift);
    }
#endif
}

}  // namespace flashscan::cuda
