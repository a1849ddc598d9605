// SPDX-License-Identifier: Apache-2.0
// The kernels that every way to run a recurrent network launches once before its first or after its last step. They
// copy the weights to the padded form of the products and their gradient back, convert BIAS to the states' dtype, sum
// GRAD|BIAS over rows, find the sequence of each step, and copy the states of sequences without steps.
//
// Ownership  A thread computes one number. In the sum of GRAD|BIAS a block has 32 columns, and the sums of its 8 warps
//            are added in order.
// Bytes      Each array is read once and written once.
// Sync       rnn_sum_bias has one __syncthreads; the other kernels have none.
// Limits     None.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/rnn/params.h"

namespace flashscan::cuda {

constexpr int rnn_edge_threads = 256;

__device__ __forceinline__ int64_t rnn_thread() {
    return static_cast<int64_t>(blockIdx.x) * rnn_edge_threads + threadIdx.x;
}

// Computes sequence[t] for every t: the sequence that holds step t, or -1 past the last sequence.
static __global__ void __launch_bounds__(rnn_edge_threads)
    rnn_find_sequences(const __grid_constant__ RnnSequenceParams p) {
    const int64_t t = rnn_thread();
    if (t < p.time) p.sequence[t] = t < end_of_steps(p.offsets, p.time) ? find_sequence(p.offsets, t) : -1;
}

// Copies the states of rows without steps.
template <typename Wide>
__global__ void __launch_bounds__(rnn_edge_threads) rnn_pass_states(RnnPassParams p) {
    const int64_t i = rnn_thread();
    if (i >= p.states * p.rows * p.width) return;
    const int64_t n = i / p.width % p.rows;
    const SequenceOffsets& offsets = p.sequences.offsets;
    if (offsets.data != nullptr && load_offset(offsets, n) != load_offset(offsets, n + 1)) return;
    static_cast<Wide*>(p.to)[i] = p.from != nullptr ? static_cast<const Wide*>(p.from)[i] : Wide(0);
}

// Copies WEIGHT [G, H, D, D] of type W to [H, G, padded, padded] of type X, with zeros in the padding.
template <typename X, typename W>
__global__ void __launch_bounds__(rnn_edge_threads) rnn_pack_weights(RnnWeightParams p) {
    const int64_t i = rnn_thread();
    if (i >= p.heads * p.gates * p.padded * p.padded) return;
    const int64_t in = i % p.padded, row = i / p.padded, out = row % p.padded, block = row / p.padded;
    const int64_t gate = block % p.gates, head = block / p.gates;
    typename Element<X>::Wide value = 0;
    if (in < p.dim && out < p.dim)
        value = Element<W>::widen(static_cast<const W*>(p.from)[((gate * p.heads + head) * p.dim + out) * p.dim + in]);
    static_cast<X*>(p.to)[i] = Element<X>::narrow(value);
}

// Copies [H, G, padded, padded] in the states' dtype to GRAD|WEIGHT [G, H, D, D].
template <typename W>
__global__ void __launch_bounds__(rnn_edge_threads) rnn_unpack_weights(RnnWeightParams p) {
    using Wide = typename Element<W>::Wide;
    const int64_t i = rnn_thread();
    if (i >= p.gates * p.heads * p.dim * p.dim) return;
    const int64_t in = i % p.dim, row = i / p.dim, out = row % p.dim, block = row / p.dim;
    const int64_t head = block % p.heads, gate = block / p.heads;
    const int64_t from = ((head * p.gates + gate) * p.padded + out) * p.padded + in;
    static_cast<W*>(p.to)[i] = Element<W>::narrow(static_cast<const Wide*>(p.from)[from]);
}

// Converts BIAS to the states' dtype.
template <typename W>
__global__ void __launch_bounds__(rnn_edge_threads) rnn_widen_bias(RnnBiasParams p) {
    const int64_t i = rnn_thread();
    if (i < p.biases * p.width)
        static_cast<typename Element<W>::Wide*>(p.to)[i] = Element<W>::widen(static_cast<const W*>(p.from)[i]);
}

constexpr int rnn_sum_columns = 32;

// Sums [biases, rows, width] over rows. A block has 32 columns; each of its 8 warps sums every eighth row, then the
// sums of the warps are added in order.
template <typename W>
__global__ void __launch_bounds__(rnn_edge_threads) rnn_sum_bias(RnnBiasParams p) {
    using Wide = typename Element<W>::Wide;
    constexpr int lanes = rnn_edge_threads / rnn_sum_columns;
    __shared__ Wide partial[lanes][rnn_sum_columns];
    const int column = static_cast<int>(threadIdx.x) % rnn_sum_columns;
    const int lane = static_cast<int>(threadIdx.x) / rnn_sum_columns;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * rnn_sum_columns + column;
    const bool inside = i < p.biases * p.width;
    Wide sum = 0;
    if (inside) {
        const Wide* const from = static_cast<const Wide*>(p.from) + i / p.width * p.rows * p.width + i % p.width;
#pragma unroll 4
        for (int64_t row = lane; row < p.rows; row += lanes) sum += from[row * p.width];
    }
    partial[lane][column] = sum;
    __syncthreads();
    if (!inside || lane != 0) return;
    for (int other = 1; other < lanes; ++other) sum += partial[other][column];
    static_cast<W*>(p.to)[i] = Element<W>::narrow(sum);
}

}  // namespace flashscan::cuda
