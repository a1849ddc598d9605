// SPDX-License-Identifier: Apache-2.0
// The kernel "diagonal", rnn_diagonal_forward: networks of heads of one unit, whose recurrent matrices are diagonals.
//
//     raw_g = INPUT[t]_g + R_g h[t-1] + BIAS_g, numbers all of them;   h[t], states[t] = cell(raw, states[t-1])
//
// Ownership  A block is a warp, and a lane has a unit of a row from the first step to the last: its states, R and BIAS
//            are in registers, and nothing is exchanged. Rows are entries of the batch or packed sequences.
// Bytes      INPUT is read once, OUTPUT and RESERVE are written once.
// Bound      The latency of a cell in each step (the product, a gate, a tanh or two: about 150 cycles), and with many
//            rows and units the bytes or the instructions of the cells.
// Sync       None.
// Limits     None. Few long rows are taken by diagonal_newton/, which is tried first.
#pragma once

#include "cuda/rnn/diagonal/chain.cuh"

namespace flashscan::cuda {

template <typename X, typename Cell, bool Deep, bool Trains>
struct RnnDiagonalForward {
    using Wide = typename Element<X>::Wide;
    using Real = RnnChainReal<X>;
    static constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, K = Cell::kept;
    static constexpr int fetched = RnnFetched<X, Cell, Deep>::forward;

    struct Chunk {
        X input[fetched][G];
        uint8_t resets;
    };

    const RnnDiagonalParams& f;
    RnnChain chain;
    RnnCursor<const X> input;
    RnnCursor<X> output;
    RnnCursor<Wide> kept;
    Wide weight[G], bias[P], state[S];

    __device__ __forceinline__ explicit RnnDiagonalForward(const RnnDiagonalParams& params)
        : f(params),
          chain(params),
          input(chain.in_tensor(static_cast<const X*>(f.p.input), f.p.input_strides)),
          output(chain.in_tensor(static_cast<X*>(f.p.output), f.p.output_strides)),
          kept(chain.in_reserve<Wide>(f, f.p.kept, K)) {
        load_parameters<X>(f, f.weight, chain.unit, weight);
        load_parameters<X>(f, f.p.bias, chain.unit, bias);
        chain.load_states(f.p, f.p.state_in, state);
    }

    __device__ __forceinline__ void load(X (&to)[G]) {
#pragma unroll
        for (int g = 0; g < G; ++g) to[g] = input.at[g * f.p.input_strides.state];
        input.move();
    }
    __device__ __forceinline__ void load(Chunk& chunk, int64_t i) {
        chunk.resets = chain.load_resets(f.p, i);
#pragma unroll
        for (int k = 0; k < fetched; ++k) load(chunk.input[k]);
    }

    __device__ __forceinline__ void step(const X (&x)[G], bool reset) {
#pragma unroll
        for (int s = 0; s < S; ++s) state[s] = reset ? Wide(0) : state[s];
        Real keep[K];
        rnn_chain_step<X, Cell>(x, weight, bias, state, keep);
        output.at[0] = Element<X>::narrow(state[0]);
        if (S > 1 && f.p.output_states > 1)
#pragma unroll
            for (int s = 1; s < S; ++s) output.at[s * f.p.output_strides.state] = Element<X>::narrow(state[s]);
        output.move();
        if constexpr (Trains) {
#pragma unroll
            for (int k = 0; k < K; ++k) kept.at[k * rnn_diagonal_units] = value_of(keep[k]);
            kept.move();
        }
    }

    __device__ __forceinline__ void run() {
        const int64_t count = chain.count;
        int64_t i = 0;
        // The steps that do not fill a chunk come first.
#pragma unroll 1
        for (; i < count % fetched; ++i) {
            X x[G];
            load(x);
            step(x, (RnnChain::resets_of(f.p, chain.load_resets(f.p, i)) & 1) != 0);
        }
        Chunk now;
        if (i < count) load(now, i);
#pragma unroll 1
        for (; i < count; i += fetched) {
            Chunk next;
            if (i + fetched < count) load(next, i + fetched);
            const uint32_t resets = RnnChain::resets_of(f.p, now.resets);
#pragma unroll
            for (int k = 0; k < fetched; ++k) step(now.input[k], (resets >> k & 1) != 0);
            now = next;
        }
        chain.store_rows(f.p, f.p.state_out, state);
    }
};

template <typename X, typename Cell, bool Deep, bool Trains>
__global__ void __launch_bounds__(rnn_diagonal_units, (rnn_resident_warps<X, Deep>))
    rnn_diagonal_forward(const __grid_constant__ RnnDiagonalParams f) {
    RnnDiagonalForward<X, Cell, Deep, Trains>(f).run();
}

}  // namespace flashscan::cuda
