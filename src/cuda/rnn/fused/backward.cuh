// SPDX-License-Identifier: Apache-2.0
// The kernel "fused", rnn_fused_backward: one launch for all steps, with the weights on chip. It walks a recurrent
// network from the last step to the first. A team of blocks keeps R^T of a head in registers and shared memory
// (team.cuh) and multiplies it by the gradients of the pre-activations.
//
//     d_states[t-1], d_raw[t] = cell'(d_states[t] + R^T d_raw[t+1], states[t-1], kept[t])
//
// Ownership  As forward.cuh. A lane owns elements (unit, row): from the product it takes the gradient of their h that
//            came through R, it carries the gradients of their states in registers, runs the cell's backward and passes
//            d_raw of all gates to the team. Sums for GRAD|BIAS stay in registers.
// Bytes      GRAD|OUTPUT, OUTPUT, RESERVE and GRAD|INPUT are moved once. d_raw and the h before each step are stored
//            for one product that the host enqueues for GRAD|WEIGHT. The inputs of a step are prefetched into L2 eight
//            steps ahead and are loaded, and turned into the cell's slopes, before its product ends; its results are
//            stored while the next product waits for its operands.
// Sync       As forward.cuh, with `gates` times as many bytes through L2, or by a reduce-scatter (team_scatter.cuh).
// Limits     As forward.cuh. A launch takes steps [first, end); the gradients of the states before them go to the next
//            launch through global memory.
#pragma once

#include "cuda/rnn/fused/backward_job.cuh"
#include "cuda/rnn/fused/warp_roles.cuh"

namespace flashscan::cuda {

// A block's loop over its jobs where all warps do both products and cells.
template <typename X, typename Cell, typename S>
__device__ __forceinline__ void rnn_backward_alone(const RnnFusedParams& f, unsigned char* shared) {
    const TeamVectors<S> vectors(f, shared, 0);
    vectors.begin();
    const RnnBackwardPace<Cell> pace(f, RnnOwn<S>::kept_step(f, RnnKept<X, Cell>::count));
    TeamWeights<S> weights(shared);
    int head = -1;
    uint32_t turn = 0;  // the number of the exchange; a job's first step has none to wait for
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        RnnBackwardJob<X, Cell, S> work(f, pace, index, 0);
        if (work.job().steps == 0) continue;
        if (work.job().head != head) load_weights(f, work.job(), weights);
        head = work.job().head;
        work.begin(vectors);
        weights.await();
        const auto product = [&](uint32_t of) {
            return [&, of](auto early, auto late, auto& sums) {
                team_product<X>(weights, vectors, of, shared, early, late, sums);
            };
        };
        for (int step = work.end() - 1; step >= work.first(); --step, ++turn) {
            work.hand_step_on(vectors, turn, step, [&] { team_send<X>(weights, vectors, turn); });
            if (step > work.first()) work.take_through(step, product(turn));
        }
        work.finish(product(turn - 1));
        // Without a last product, the next job's first product writes its sums where this job's last one did.
        if (!work.needs_last(f)) __syncthreads();
    }
}

// The loop of a warp that runs cells, where warps are specialised.
template <typename X, typename Cell, typename S>
__device__ __forceinline__ void rnn_backward_cells(const RnnFusedParams& f, unsigned char* shared, int shift) {
    const TeamVectors<S> vectors(f, shared, shift);
    const RnnBackwardPace<Cell> pace(f, RnnOwn<S>::kept_step(f, RnnKept<X, Cell>::count));
    uint32_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        RnnBackwardJob<X, Cell, S> work(f, pace, index, shift);
        if (work.job().steps == 0) continue;
        work.begin(vectors);
        const auto product = [&](uint32_t of) {
            return [&, of](auto early, auto late, auto& sums) {
                team_take_sums(vectors, of, shift, shared, early, late, sums);
            };
        };
        for (int step = work.end() - 1; step >= work.first(); --step, ++turn) {
            work.hand_step_on(vectors, turn, step, [=] { TeamRoles<S>::tell_put(shift); });
            if (step > work.first()) work.take_through(step, product(turn));
        }
        work.finish(product(turn - 1));
    }
}

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_backward(const __grid_constant__ RnnFusedParams f) {
// Older devices have no clusters; the host does not launch this kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned char* const shared = ptx::held_shared(memory);
    using Job = RnnBackwardJob<X, Cell, S>;
    const auto steps = [&](const RnnJob<S>& job) { return Job::end(f, job) - static_cast<int>(f.first); };
    if constexpr (S::cell_warps == 0) {
        rnn_backward_alone<X, Cell, S>(f, shared);
    } else if (TeamRoles<S>::multiplies()) {
        TeamRoles<S>::template set_registers<S::product_registers>();
        multiply_turns<X, S>(f, shared, steps, Job::needs_last(f));
    } else {
        TeamRoles<S>::template set_registers<S::cell_registers>();
        const int shift = TeamRoles<S>::shift();
        if (shift < 2) rnn_backward_cells<X, Cell, S>(f, shared, shift);
    }
#endif
}

}  // namespace flashscan::cuda
