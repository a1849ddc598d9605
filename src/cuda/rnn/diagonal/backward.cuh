// SPDX-License-Identifier: Apache-2.0
// The kernel "diagonal", rnn_diagonal_backward: networks of heads of one unit, from the last step to the first.
//
//     d_states[t-1], d_raw[t] = cell'(d_states[t], states[t-1], kept[t]);   dh[t-1] += sum over g of R_g d_raw[t]_g
//     GRAD|R_g = sum of d_raw_g h[t-1],   GRAD|BIAS_g = sum of d_raw_g
//
// Gradients are linear in the carry, d_states. Where rows are few and long, time is cut into segments, a warp each: a
// first launch finds what each does to the carry (Maps), "diagonal_newton" scans these maps, and a second launch is as
// without segments, from the carries that come out.
//
// Ownership  As forward.cuh. The sums over the steps of a row, or of a segment, stay in registers; a kernel of
//            edges.cuh adds all of them, in order.
// Bytes      RESERVE, GRAD|OUTPUT and, unless RESERVE has h, OUTPUT are read once, and once more for the maps of
//            segments; GRAD|INPUT is written once.
// Bound      Those bytes; the latency of a step is a few multiplications.
// Sync       None.
// Limits     Segments: no clip, which is not linear, and no sLSTM, whose carry has another meaning at either end.
#pragma once

#include "cuda/rnn/diagonal/chain.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell, bool Deep, bool Maps = false>
struct RnnDiagonalBackward {
    using Wide = typename Element<X>::Wide;
    using Real = RnnChainReal<X>;
    static constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, K = Cell::kept;
    static constexpr int fetched = RnnFetched<X, Cell, Deep>::backward;

    // The values that are loaded for a step.
    struct Step {
        Wide keep[K];
        X given[S];
        X h;  // after the step; where the cell keeps it, it is not loaded
    };
    // A chunk goes backward: entry k is step i - k.
    struct Chunk {
        Step steps[fetched];
        uint8_t resets;
    };
    // The states before a step, as far as the cell's backward reads them, and h.
    struct Before {
        Wide state[S], h;
    };

    const RnnDiagonalParams& f;
    const int segment;
    RnnChain chain;
    RnnCursor<const X> output, grad_output;
    RnnCursor<const Wide> kept;
    RnnCursor<X> grad_input;
    Wide weight[G], weight_sums[G] = {}, bias_sums[P] = {}, carry[S];
    Wide slopes[S][S] = {};  // [j]: the carry before the segment for that of state j after it

    __device__ __forceinline__ explicit RnnDiagonalBackward(const RnnDiagonalParams& params)
        : f(params),
          segment(static_cast<int>(blockIdx.x % static_cast<unsigned>(params.segments))),
          chain(chain_of(params, segment)),
          output(chain.in_tensor(static_cast<const X*>(f.p.output), f.p.output_strides, chain.count - 1, -1)),
          grad_output(chain.in_tensor(static_cast<const X*>(f.p.grad_output), f.p.output_strides, chain.count - 1, -1)),
          kept(chain.in_reserve<const Wide>(f, f.p.kept, K, chain.count - 1, -1)),
          grad_input(chain.in_tensor(static_cast<X*>(f.p.grad_input), f.p.input_strides, chain.count - 1, -1)) {
        load_parameters<X>(f, f.weight, chain.unit, weight);
    }

    static __device__ __forceinline__ RnnChain chain_of(const RnnDiagonalParams& f, int segment) {
        if (f.segments == 1) return RnnChain(f);
        RnnChain chain(f, blockIdx.x / static_cast<unsigned>(f.segments), static_cast<int>(threadIdx.x));
        chain.cut(segment, f.segments);
        return chain;
    }

    __device__ __forceinline__ void load(Step& step) {
#pragma unroll
        for (int k = 0; k < K; ++k) step.keep[k] = kept.at[k * rnn_diagonal_units];
        step.given[0] = grad_output.at[0];
        if (S > 1 && f.p.output_states > 1)
#pragma unroll
            for (int s = 1; s < S; ++s) step.given[s] = grad_output.at[s * f.p.output_strides.state];
        if constexpr (!Cell::keeps_h) step.h = *output.at;
        kept.move(), grad_output.move(), output.move();
    }
    // Loads a chunk, from its entry `first` on, whose first step is i.
    template <int First>
    __device__ __forceinline__ void load(Chunk& chunk, int64_t i) {
        chunk.resets = chain.load_resets(f.p, i - fetched + 1);
#pragma unroll
        for (int k = First; k < fetched; ++k) load(chunk.steps[k]);
    }
    // The states before the first step, after all steps were loaded.
    __device__ __forceinline__ Before first() {
        if (segment > 0) {
            Step step;
            load(step);
            return after(step);
        }
        Before before;
        chain.load_states(f.p, f.p.state_in, before.state);
        before.h = before.state[0];
        return before;
    }
    static __device__ __forceinline__ Before after(const Step& step) {
        Before before;
#pragma unroll
        for (int s = 0; s < S; ++s) before.state[s] = Wide(0);
        Cell::states_of(step.keep, before.state);
        before.h = Cell::keeps_h ? before.state[0] : Element<X>::widen(step.h);
        return before;
    }

    // Takes gradients of the states after a step to those before it. d_pre: the gradients of what enters the gates.
    __device__ __forceinline__ void pull_back(const Step& step, const Before& before, bool reset, Wide (&carry)[S],
                                              Wide (&d_pre)[P]) const {
        Real keep[K], previous[S], carried[S], d[P];
        as_numbers(step.keep, keep);
        as_numbers(before.state, previous);
        as_numbers(carry, carried);
        cell::backward<Cell>(keep, previous, carried, d);
        as_values(carried, carry);
        as_values(d, d_pre);
        Wide through = rnn_chain_through<Cell>(weight, step.keep, before.state, d_pre);
        if (f.clips != 0) {
            const Wide limit = static_cast<Wide>(f.p.clip);
            through = through > limit ? limit : through < -limit ? -limit : through;
        }
        carry[0] += through;
#pragma unroll
        for (int s = 0; s < S; ++s) carry[s] = reset ? Wide(0) : carry[s];
    }

    __device__ __forceinline__ void run_step(const Step& step, Before before, bool reset) {
#pragma unroll
        for (int s = 0; s < S; ++s) before.state[s] = reset ? Wide(0) : before.state[s];
        before.h = reset ? Wide(0) : before.h;
        Wide given[S], d_pre[P];
#pragma unroll
        for (int s = 0; s < S; ++s)
            given[s] = s == 0 || f.p.output_states > 1 ? Element<X>::widen(step.given[s]) : Wide(0);
        Cell::enter(given, step.keep, carry);
        pull_back(step, before, reset, carry, d_pre);
        if constexpr (Maps) {
#pragma unroll
            for (int j = 0; j < S; ++j) pull_back(step, before, reset, slopes[j], d_pre);
        } else {
            add_up(step, before.h, d_pre);
        }
    }
    // Adds a step to the gradients of the parameters and stores that of INPUT.
    __device__ __forceinline__ void add_up(const Step& step, Wide h, const Wide (&d_pre)[P]) {
#pragma unroll
        for (int g = 0; g < G; ++g) {
            Wide factor = h;
            if constexpr (Cell::resets_before)
                if (g == G - 1) factor = step.keep[0] * h;
            weight_sums[g] = multiply_add(d_pre[Cell::recurrent(g)], factor, weight_sums[g]);
        }
#pragma unroll
        for (int j = 0; j < P; ++j) bias_sums[j] += d_pre[j];
        if (f.p.grad_input == nullptr) return;
#pragma unroll
        for (int g = 0; g < G; ++g) grad_input.at[g * f.p.input_strides.state] = Element<X>::narrow(d_pre[g]);
        grad_input.move();
    }

    // Runs the steps from i down, in whole chunks. The first is `step`.
    __device__ __forceinline__ void run_chunks(int64_t i, const Step& step) {
        Chunk now;
        Before before_all;
        now.steps[0] = step;
        if (i >= 0) load<1>(now, i);
#pragma unroll 1
        for (; i >= 0; i -= fetched) {
            Chunk next;
            const bool more = i >= fetched;
            if (more)
                load<0>(next, i - fetched);
            else
                before_all = first();
            const uint32_t resets = RnnChain::resets_of(f.p, now.resets);
#pragma unroll
            for (int k = 0; k < fetched; ++k) {
                const bool reset = (resets >> (fetched - 1 - k) & 1) != 0;
                if (k + 1 < fetched)
                    run_step(now.steps[k], after(now.steps[k + 1 < fetched ? k + 1 : k]), reset);
                else
                    run_step(now.steps[k], more ? after(next.steps[0]) : before_all, reset);
            }
            now = next;
        }
    }

    __device__ __forceinline__ void run() {
        const RnnParams& p = f.p;
        const int64_t count = chain.count;
        if constexpr (Maps) {
#pragma unroll
            for (int s = 0; s < S; ++s) carry[s] = Wide(0), slopes[s][s] = Wide(1);
        } else if (f.segments > 1) {
#pragma unroll
            for (int s = 0; s < S; ++s) carry[s] = static_cast<const Wide*>(f.carries)[in_segments(s)];
        } else {
            chain.load_states(p, p.grad_state_out, carry);
        }
        if (count > 0) {
            Wide last[S];
#pragma unroll
            for (int s = 0; s < S; ++s) last[s] = carry[s], carry[s] = Wide(0);
            Step step;
            load(step);
            Cell::enter(last, step.keep, carry);
            // The steps that do not fill a chunk come first.
            int64_t i = count - 1;
#pragma unroll 1
            for (; (i + 1) % fetched != 0; --i) {
                const bool reset = (RnnChain::resets_of(p, chain.load_resets(p, i)) & 1) != 0;
                if (i == 0) {
                    run_step(step, first(), reset);
                } else {
                    Step before;
                    load(before);
                    run_step(step, after(before), reset);
                    step = before;
                }
            }
            run_chunks(i, step);
            Wide state[S];
            chain.load_states(p, p.state_in, state);
            Cell::leave(state, carry);
        }
        if constexpr (Maps) {
            store(f.maps, carry);
#pragma unroll
            for (int j = 0; j < S; ++j) store(f.maps, slopes[j], (j + 1) * S);
        } else {
            if (segment == 0) chain.store_rows(p, p.grad_state_in, carry);
            store(f.weight_sums, weight_sums);
            store(p.bias_sums, bias_sums);
        }
    }

    // The lane's index in an array [.., state rows, segments, units].
    __device__ __forceinline__ int64_t in_segments(int i) const {
        return ((i * f.p.state_rows + chain.row) * f.segments + segment) * f.p.width + chain.unit;
    }
    template <int N>
    __device__ __forceinline__ void store(void* data, const Wide (&numbers)[N], int from = 0) const {
        if (data == nullptr) return;
#pragma unroll
        for (int i = 0; i < N; ++i) static_cast<Wide*>(data)[in_segments(from + i)] = numbers[i];
    }
};

template <typename X, typename Cell, bool Deep>
__global__ void __launch_bounds__(rnn_diagonal_units, (rnn_resident_warps<X, Deep>))
    rnn_diagonal_backward(const __grid_constant__ RnnDiagonalParams f) {
    RnnDiagonalBackward<X, Cell, Deep>(f).run();
}

}  // namespace flashscan::cuda
