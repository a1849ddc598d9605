// SPDX-License-Identifier: Apache-2.0
// Backward of matrix products and affine maps needs other ranks for two things: the states before the own steps, as
// OUTPUT has them (edge_states, find_edges), and gradients on their way back through the steps of a rank
// (join_gradients).
//
// Ownership  A thread has a number of a state.
// Bytes      Few beside those of a pass; join_gradients reads a matrix d times, from caches.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/launch/rank_threads.h"
#include "cuda/ranks/kernels.cuh"
#include "cuda/ranks/matrices_params.h"

namespace flashscan::cuda {

template <typename X>
__global__ void __launch_bounds__(rank_threads) edge_states(const __grid_constant__ RankEdgeParams p) {
    using Wide = typename Element<X>::Wide;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, row_numbers = p.channels * p.element;
    if (i >= p.rows * row_numbers) return;
    const int64_t row = i / row_numbers, inside = i % row_numbers;
    const bool packed = p.offsets.data != nullptr;
    const int64_t begin = packed ? load_offset(p.offsets, row) : 0,
                  end = packed ? load_offset(p.offsets, row + 1) : p.time;
    Wide edge{};
    if (begin < end) {
        const int64_t t = (p.reverse != 0) == (p.last_step != 0) ? begin : end - 1;
        const int64_t at = (packed ? 0 : row) * p.batch_step + t * p.time_step + inside / p.element * p.channel_step;
        edge = p.output == nullptr ? not_a_number(edge)
                                   : Element<X>::widen(static_cast<const X*>(p.output)[at + inside % p.element]);
    } else if (p.state_in != nullptr) {
        edge = static_cast<const Wide*>(p.state_in)[i];
    }
    static_cast<Wide*>(p.edge)[i] = edge;
    if (p.marks == nullptr || inside != 0) return;
    p.marks[row] = begin < end ? edge_of_steps : p.state_in != nullptr ? edge_of_state_in : edge_of_nothing;
}

template <typename Wide>
__global__ void __launch_bounds__(rank_threads) find_edges(const __grid_constant__ RankEdgesParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.rows * p.row_numbers) return;
    Wide& to = static_cast<Wide*>(p.to)[i];
    for (int32_t k = 0; k < p.count; ++k) {
        const auto mark = static_cast<uint8_t>(p.marks[k * p.message_step + i / p.row_numbers]);
        if (mark == edge_of_nothing) continue;
        if (mark == edge_of_state_in || p.exclusive == 0)
            to = reinterpret_cast<const Wide*>(p.edges + k * p.message_step)[i];
        return;
    }
    const bool diagonal = p.identity_dim > 0 && i % (p.identity_dim * p.identity_dim) % (p.identity_dim + 1) == 0;
    to = diagonal ? one(Wide{}) : Wide{};
}

template <typename Wide>
__global__ void __launch_bounds__(rank_threads) join_gradients(const __grid_constant__ RankJoinParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.chains * (p.affine != 0 ? p.dim : p.dim * p.dim)) return;
    const int64_t line = i / p.dim, column = i % p.dim, chain = p.affine != 0 ? line : line / p.dim;
    const Wide* const gradient = static_cast<const Wide*>(p.gradient) + line * p.dim;
    const Wide* const matrix = static_cast<const Wide*>(p.matrix) + chain * p.dim * p.dim;
    Wide sum = static_cast<const Wide*>(p.local)[i];
    for (int64_t k = 0; k < p.dim; ++k)
        sum = multiply_add(conj(matrix[p.affine != 0 ? k * p.dim + column : column * p.dim + k]), gradient[k], sum);
    static_cast<Wide*>(p.joined)[i] = sum;
}

}  // namespace flashscan::cuda
