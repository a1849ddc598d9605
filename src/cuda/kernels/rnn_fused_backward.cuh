// SPDX-License-Identifier: Apache-2.0
// Recurrent networks backward in one launch, from the last step to the first: a team of blocks keeps R^T of a head on
// chip (rnn_team.cuh) and multiplies it by the gradients of the pre-activations.
//
//     d_states[t-1], d_raw[t] = cell'(d_states[t] + R^T d_raw[t+1], states[t-1], kept[t])
//
// A lane owns elements (unit, row): it gets what reaches their h through R out of the product, carries the gradients of
// their states in registers, runs the cell's backward and hands d_raw, all gates of it, to the team before it stores
// anything else. d_raw and the h before each step are left for one product of the host, GRAD|WEIGHT; sums for GRAD|BIAS
// stay in registers. RESERVE is loaded one step ahead.
//
// A launch takes steps [first, end); what it knows after its first step goes to the next launch through the carried
// states. Costs are those of forward, with `gates` times as much through L2.
#pragma once

#include "cuda/kernels/rnn_backward.cuh"
#include "cuda/kernels/rnn_fused_element.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell, typename S>
class RnnBackwardJob {
    static constexpr int G = Cell::gates, P = Cell::biases, N = Cell::states, K = Cell::kept, own = S::own;
    static constexpr int period = S::depth / G;  // k = gate period + unit

  public:
    __device__ __forceinline__ RnnBackwardJob(const RnnFusedParams& f, const RnnJob<S>& job) : f_(f), job_(job) {}

    // R^T as left operand: rows are units of this block, k the gates of all units.
    __device__ __forceinline__ void load_weights(TeamWeights<S>& weights) const {
        const int64_t padded = f_.p.padded;
        const auto* const from = static_cast<const uint16_t*>(f_.weights) + job_.head * G * padded * padded;
        weights.fill([&](int unit, int, int k) {
            const int64_t in = job_.block * S::units + unit, gate = k / period, out = k % period;
            if (in >= padded || out >= padded) return uint4{};
            uint32_t half[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) half[i] = from[(gate * padded + out + i) * padded + in];
            return uint4{half[0] | half[1] << 16, half[2] | half[3] << 16, half[4] | half[5] << 16,
                         half[6] | half[7] << 16};
        });
    }

    __device__ __forceinline__ void begin() {
        const bool last = f_.end == f_.p.time;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i, K);
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] = 0.0F;
            cut_[i] = false;
            load_kept(e, f_.end - 1, keep_[i]);
            if (last || !e.inside) continue;
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = static_cast<const float*>(f_.p.states)[carried(e, s)];
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) sums_[i][j] = static_cast<const float*>(f_.p.bias_sums)[carried(e, j)];
        }
    }

    __device__ __forceinline__ void step(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, float* partials,
                                         int64_t turn, int64_t step) {
        float given[own][N], before[own][K], h[own];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i, K);
            load_kept(e, step - 1, before[i]);
#pragma unroll
            for (int s = 0; s < N; ++s)
                given[i][s] = e.inside && s < f_.p.output_states
                                  ? load_wide<X>(f_.p.grad_output, e.tensor(f_.p.output_strides, s, time_of(f_.p, step)))
                                  : 0.0F;
            h[i] = e.inside && step > 0 && f_.factors != nullptr
                       ? load_wide<X>(f_.p.output, e.tensor(f_.p.output_strides, 0, time_of(f_.p, step - 1)))
                       : 0.0F;
        }
        float through[own][1] = {};
        if (step + 1 < f_.end) product(weights, vectors, partials, turn, through);
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if (S::elements % S::parts != 0 && !TeamElement<S>(i).exists) continue;
            const RnnOwn<S> e(f_, job_, i, K);
            take(i, through[i][0], step + 1 < f_.end);
            if (step + 1 == f_.p.time) {
                float last[N];
                load_states(f_.p, e, f_.p.grad_state_out, last);
                Cell::enter(last, keep_[i], carry_[i]);
            }
            cut_[i] = cuts(f_.p, e, step);
            float previous[N] = {}, d_pre[P];
            if (step == 0) {
                if (!cut_[i]) load_states(f_.p, e, f_.p.state_in, previous);
                h[i] = previous[0];
            } else if (cut_[i]) {
                h[i] = 0.0F;
            } else {
                Cell::states_of(before[i], previous);
            }
            Cell::enter(given[i], keep_[i], carry_[i]);
            Cell::backward(keep_[i], previous, carry_[i], d_pre);
            if (!e.inside)
#pragma unroll
                for (int j = 0; j < P; ++j) d_pre[j] = 0.0F;
            if (step > f_.first || needs_last())
#pragma unroll
                for (int g = 0; g < G; ++g)
                    vectors.put(turn + 1, e.team_row, g * period + e.unit, bits_of<X>(d_pre[Cell::recurrent(g)]));
            store(e, step, d_pre, h[i]);
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] += d_pre[j];
#pragma unroll
            for (int k = 0; k < K; ++k) keep_[i][k] = before[i][k];
        }
    }

    // Whether anything asks for what the first step of this launch hands on.
    __device__ __forceinline__ bool needs_last() const { return f_.first > 0 || f_.p.grad_state_in != nullptr; }

    // The gradients of the states before the first step: GRAD|STATE_IN, or for the next launch.
    __device__ __forceinline__ void finish(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, float* partials,
                                           int64_t turn) {
        float through[own][1] = {};
        if (needs_last())
            product(weights, vectors, partials, turn, through);
        else
            __syncthreads();  // the next job's first product adds where this one's last did
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i, K);
            if (!e.inside) continue;
            take(i, through[i][0], true);
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) static_cast<float*>(f_.p.bias_sums)[carried(e, j)] = sums_[i][j];
            if (f_.first > 0) {
#pragma unroll
                for (int s = 0; s < N; ++s) static_cast<float*>(f_.p.states)[carried(e, s)] = carry_[i][s];
            } else if (f_.p.grad_state_in != nullptr) {
                float state[N];
                load_states(f_.p, e, f_.p.state_in, state);
                Cell::leave(state, carry_[i]);
                store_states(f_.p, e, f_.p.grad_state_in, carry_[i]);
            }
        }
    }

  private:
    __device__ __forceinline__ void product(const TeamWeights<S>& weights, const TeamVectors<S>& vectors,
                                            float* partials, int64_t turn, float (&through)[own][1]) const {
        const int used = f_.blocks * S::units;
        team_product<X, S>(
            weights, vectors, turn, partials, [used](int k) { return k % period < used; }, through);
    }
    // The carry across the step boundary: nothing passes a reset.
    __device__ __forceinline__ void take(int i, float through, bool product) {
        if (!product) return;
        if (cut_[i])
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
        else
            carry_[i][0] += clipped(through, f_.p.clip);
    }
    __device__ __forceinline__ int64_t carried(const RnnOwn<S>& e, int s) const {
        return (s * f_.p.rows + e.row) * f_.p.width + e.w;
    }
    __device__ __forceinline__ void load_kept(const RnnOwn<S>& e, int64_t step, float (&keep)[K]) const {
        const bool there = e.inside && step >= 0;
        const float* const from = static_cast<const float*>(f_.p.kept) +
                                  (there ? time_of(f_.p, step) * RnnOwn<S>::kept_step(f_, K) + e.kept : 0);
#pragma unroll
        for (int k = 0; k < K; ++k) keep[k] = there ? from[k * 64] : 0.0F;
    }
    __device__ __forceinline__ void store(const RnnOwn<S>& e, int64_t step, const float (&d_pre)[P], float h) const {
        if (e.inside && f_.p.grad_input != nullptr)
#pragma unroll
            for (int g = 0; g < G; ++g)
                store_narrow<X>(f_.p.grad_input, e.tensor(f_.p.input_strides, g, time_of(f_.p, step)), d_pre[g]);
        if (f_.factors == nullptr || e.row >= f_.p.rows || e.unit >= f_.p.padded) return;
        const int64_t block = ((step - f_.first) * f_.p.rows + e.row) * f_.heads + job_.head;
        store_narrow<X>(f_.factors, block * f_.p.padded + e.unit, h);
#pragma unroll
        for (int g = 0; g < G; ++g)
            store_narrow<X>(f_.gradients, (block * G + g) * f_.p.padded + e.unit, d_pre[Cell::recurrent(g)]);
    }

    const RnnFusedParams& f_;
    RnnJob<S> job_;
    float carry_[own][N], sums_[own][P], keep_[own][K];
    bool cut_[own];
};

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_backward(const __grid_constant__ RnnFusedParams f) {
    extern __shared__ __align__(128) unsigned char shared[];
    float* const partials = reinterpret_cast<float*>(shared);
    const int team = static_cast<int>(blockIdx.x) / f.blocks;
    const TeamVectors<S> vectors(vectors_memory<S>(f, team, shared));
    TeamWeights<S> weights;
    int head = -1;
    int64_t turn = 0;
    for (int index = team; index < f.jobs; index += f.teams) {
        const RnnJob<S> job(f, index);
        RnnBackwardJob<X, Cell, S> work(f, job);
        if (job.head != head) work.load_weights(weights);
        head = job.head;
        work.begin();
        for (int64_t step = f.end - 1; step >= f.first; --step, ++turn) {
            if constexpr (S::local) __syncthreads();
            work.step(weights, vectors, partials, turn, step);
            empty_slots<S, Cell::gates>(f, job, vectors, turn);
        }
        if constexpr (S::local) __syncthreads();
        work.finish(weights, vectors, partials, turn);
    }
}

}  // namespace flashscan::cuda
