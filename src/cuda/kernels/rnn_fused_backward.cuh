// SPDX-License-Identifier: Apache-2.0
// Recurrent networks backward in one launch, from the last step to the first: a team of blocks keeps R^T of a head on
// chip (rnn_team.cuh) and multiplies it by the gradients of the pre-activations.
//
//     d_states[t-1], d_raw[t] = cell'(d_states[t] + R^T d_raw[t+1], states[t-1], kept[t])
//
// A lane owns elements (unit, row): it gets what reaches their h through R out of the product, carries the gradients of
// their states in registers, runs the cell's backward and hands d_raw, all gates of it, to the team before it stores
// anything else. d_raw and the h before each step are left for one product of the host, GRAD|WEIGHT; sums for GRAD|BIAS
// stay in registers. What a step reads is fetched into L2 eight steps ahead and loaded before its product.
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

  public:
    static constexpr int period = S::depth / G;  // k = gate period + unit

    __device__ __forceinline__ RnnBackwardJob(const RnnFusedParams& f, int index)
        : f_(f),
          job_(f, index),
          kept_step_(RnnOwn<S>::kept_step(f, K) * (f.p.reverse != 0 ? -1 : 1)),
          input_step_(f.p.input_strides.time * (f.p.reverse != 0 ? -1 : 1)),
          output_step_(f.p.output_strides.time * (f.p.reverse != 0 ? -1 : 1)) {}

    __device__ __forceinline__ const RnnJob<S>& job() const { return job_; }

    __device__ __forceinline__ void begin() {
        const int64_t step = f_.end - 1, t = time_of(f_.p, step);
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            inside_[i] = e.inside;
            cut_[i] = false;
            place_[i] = e.place;
            output_[i] = e.tensor(f_.p.output_strides, t);
            grad_input_[i] = static_cast<X*>(f_.p.grad_input) + e.tensor(f_.p.input_strides, t);
            kept_[i] = static_cast<const float*>(f_.p.kept) + e.kept(f_, job_, K) + t * RnnOwn<S>::kept_step(f_, K);
            reset_[i] = e.row * f_.p.time;
            const int64_t block = ((step - f_.first) * f_.p.rows + e.row) * f_.heads + job_.head;
            factor_[i] = block * f_.p.padded + e.unit;
            gradient_[i] = block * G * f_.p.padded + e.unit;
            left_[i] = f_.factors != nullptr && e.exists && e.row < f_.p.rows && e.unit < f_.p.padded;
            load_kept(i, 0, keep_[i]);
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] = 0.0F;
            if (f_.end == f_.p.time || !e.inside) continue;
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = static_cast<const float*>(f_.p.states)[carried(e, s)];
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) sums_[i][j] = static_cast<const float*>(f_.p.bias_sums)[carried(e, j)];
        }
    }

    __device__ __forceinline__ void step(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, float* partials,
                                         int64_t turn, int64_t step) {
        Quick before[own][K];
        float given[own][N], h[own], through[own][1] = {};
#pragma unroll
        for (int i = 0; i < own; ++i) load_step(i, step, before[i], given[i], h[i]);
        const bool product = step + 1 < f_.end;
        if (product) team_product<X, S>(weights, vectors, turn, partials, through);
        if (!works()) return;
        Quick d_pre[own][P];
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if (product) take(i, through[i][0]);
            Quick previous[N];
            enter(i, step, before[i], given[i], previous, h[i]);
            Cell::backward(keep_[i], previous, carry_[i], d_pre[i]);
            if (!inside_[i])
#pragma unroll
                for (int j = 0; j < P; ++j) d_pre[i][j] = 0.0F;
        }
        if (step > f_.first || needs_last())
#pragma unroll
            for (int i = 0; i < own; ++i)
#pragma unroll
                for (int g = 0; g < G; ++g)
                    vectors.put(turn + 1, place_[i] + g * period, bits_of<X>(d_pre[i][Cell::recurrent(g)]));
#pragma unroll
        for (int i = 0; i < own; ++i) {
            store(i, d_pre[i], h[i]);
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] += d_pre[i][j].value;
#pragma unroll
            for (int k = 0; k < K; ++k) keep_[i][k] = before[i][k];
        }
    }

    // The gradients of the states before the first step: GRAD|STATE_IN, or for the next launch.
    __device__ __forceinline__ void finish(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, float* partials,
                                           int64_t turn) {
        float through[own][1] = {};
        if (needs_last())
            team_product<X, S>(weights, vectors, turn, partials, through);
        else
            __syncthreads();  // the next job's first product adds where this one's last did
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            if (!e.inside) continue;
            take(i, through[i][0]);
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) static_cast<float*>(f_.p.bias_sums)[carried(e, j)] = sums_[i][j];
            if (f_.first > 0) {
#pragma unroll
                for (int s = 0; s < N; ++s) static_cast<float*>(f_.p.states)[carried(e, s)] = carry_[i][s].value;
            } else if (f_.p.grad_state_in != nullptr) {
                Quick state[N];
                load_states(f_.p, e, f_.p.state_in, state);
                Cell::leave(state, carry_[i]);
                store_states(f_.p, e, f_.p.grad_state_in, carry_[i]);
            }
        }
    }

  private:
    static __device__ __forceinline__ bool works() {
        return S::elements >= S::parts || static_cast<int>(threadIdx.x) / 32 % S::parts < S::elements;
    }
    // Whether anything asks for what the first step of this launch hands on.
    __device__ __forceinline__ bool needs_last() const { return f_.first > 0 || f_.p.grad_state_in != nullptr; }

    // What reaches h through R; nothing passes a reset.
    __device__ __forceinline__ void take(int i, float through) {
        if (cut_[i])
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
        else
            carry_[i][0] += Quick(clipped(through, f_.p.clip));
    }
    // The gradients given at `step`, and the states before it with the h that entered its product.
    __device__ __forceinline__ void enter(int i, int64_t step, const Quick (&before)[K], const float (&given)[N],
                                          Quick (&previous)[N], float& h) {
        if (step + 1 == f_.p.time) {
            Quick last[N];
            load_states(f_.p, RnnOwn<S>(f_, job_, i), f_.p.grad_state_out, last);
            Cell::enter(last, keep_[i], carry_[i]);
        }
        Quick here[N];
#pragma unroll
        for (int s = 0; s < N; ++s) here[s] = given[s], previous[s] = 0.0F;
        Cell::enter(here, keep_[i], carry_[i]);
        cut_[i] = f_.p.reset != nullptr && inside_[i] && f_.p.reset[reset_[i] + time_of(f_.p, step)] != 0;
        if (cut_[i]) {
            h = 0.0F;
        } else if (step == 0) {
            load_states(f_.p, RnnOwn<S>(f_, job_, i), f_.p.state_in, previous);
            h = previous[0].value;
        } else {
            Cell::states_of(before, previous);
        }
    }
    // Asks for what `step` reads beside what it knows, and L2 for what a later one does.
    __device__ __forceinline__ void load_step(int i, int64_t step, Quick (&before)[K], float (&given)[N], float& h) {
        const bool more = step > 0;
        if (more) {
            load_kept(i, -kept_step_, before);
            kept_[i] -= kept_step_;
        }
#pragma unroll
        for (int s = 0; s < N; ++s)
            given[s] = inside_[i] && s < f_.p.output_states
                           ? load_wide<X>(f_.p.grad_output, output_[i] + s * f_.p.output_strides.state)
                           : 0.0F;
        h = inside_[i] && more && f_.factors != nullptr ? load_wide<X>(f_.p.output, output_[i] - output_step_) : 0.0F;
        if (step >= rnn_steps_ahead && inside_[i]) fetch(i);
        output_[i] -= output_step_;
    }
    __device__ __forceinline__ void fetch(int i) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        constexpr int ahead = rnn_steps_ahead - 1;
        const float* const line = kept_[i] - ahead * kept_step_ - lane + lane / 4 * 64;
        if (lane % 4 == 0 && lane / 4 < K) ptx::prefetch(line);
        if (lane < 4) {
            const int64_t at = output_[i] - rnn_steps_ahead * output_step_;
            ptx::prefetch(static_cast<const X*>(f_.p.grad_output) + at);
            if (f_.factors != nullptr) ptx::prefetch(static_cast<const X*>(f_.p.output) + at);
        }
    }
    __device__ __forceinline__ int64_t carried(const RnnOwn<S>& e, int s) const {
        return (s * f_.p.rows + e.row) * f_.p.width + e.w;
    }
    __device__ __forceinline__ void load_kept(int i, int64_t offset, Quick (&keep)[K]) const {
#pragma unroll
        for (int k = 0; k < K; ++k) keep[k] = inside_[i] ? kept_[i][offset + k * 64] : 0.0F;
    }
    __device__ __forceinline__ void store(int i, const Quick (&d_pre)[P], float h) {
        if (inside_[i] && f_.p.grad_input != nullptr)
#pragma unroll
            for (int g = 0; g < G; ++g) store_narrow<X>(grad_input_[i], g * f_.p.input_strides.state, d_pre[g].value);
        grad_input_[i] -= input_step_;
        if (left_[i]) {
            store_narrow<X>(f_.factors, factor_[i], h);
#pragma unroll
            for (int g = 0; g < G; ++g)
                store_narrow<X>(f_.gradients, gradient_[i] + g * f_.p.padded, d_pre[Cell::recurrent(g)].value);
        }
        const int64_t blocks = f_.p.rows * f_.heads * f_.p.padded;
        factor_[i] -= blocks;
        gradient_[i] -= blocks * G;
    }

    const RnnFusedParams& f_;
    RnnJob<S> job_;
    int64_t kept_step_, input_step_, output_step_;
    const float* kept_[own];  // of the step whose `kept` is known
    X* grad_input_[own];
    int64_t output_[own], reset_[own], factor_[own], gradient_[own];
    int place_[own];
    bool inside_[own], left_[own], cut_[own];
    Quick carry_[own][N], keep_[own][K];
    float sums_[own][P];
};

template <typename X, typename Cell, typename S>
__global__ void __launch_bounds__(S::threads, 1) rnn_fused_backward(const __grid_constant__ RnnFusedParams f) {
    using Job = RnnBackwardJob<X, Cell, S>;
    extern __shared__ __align__(128) unsigned char shared[];
    float* const partials = reinterpret_cast<float*>(shared);
    const TeamVectors<S> vectors(vectors_memory<S>(f, shared), f.blocks * S::units, Job::period);
    vectors.begin();
    TeamWeights<S> weights;
    int head = -1;
    int64_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        Job work(f, index);
        if (work.job().head != head) load_weights(f, work.job(), weights);
        head = work.job().head;
        work.begin();
        for (int64_t step = f.end - 1; step >= f.first; --step, ++turn) {
            if constexpr (S::local) __syncthreads();
            work.step(weights, vectors, partials, turn, step);
            clear_slots<S, Cell::gates>(f, work.job(), vectors, turn);
        }
        if constexpr (S::local) __syncthreads();
        work.finish(weights, vectors, partials, turn);
    }
}

}  // namespace flashscan::cuda
