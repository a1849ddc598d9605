// SPDX-License-Identifier: Apache-2.0
// The kernels of "diagonal_newton", backward. rnn_diagonal_newton_maps, of diagonal/backward.cuh, finds the map of each
// segment; rnn_diagonal_newton_carries, which is here, scans these maps; rnn_diagonal_backward walks the segments from
// the carries that come out.
//
//     carry[w-1] = offset[w] + slope[w] carry[w]           from the last segment, whose carry is GRAD|STATE_OUT, down
//
// Ownership  A thread has a unit of a row.
// Bytes      The maps of the segments are read once; a unit has up to a few hundred of them.
// Bound      The latency of a group of loads.
// Sync       None.
// Limits     As diagonal/backward.cuh with segments.
#pragma once

#include "cuda/rnn/diagonal/backward.cuh"
#include "cuda/rnn/diagonal_newton/params.h"

namespace flashscan::cuda {

template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_newton_scan_block)
    rnn_diagonal_newton_carries(const __grid_constant__ RnnDiagonalParams f) {
    using Wide = typename Element<X>::Wide;
    constexpr int S = Cell::states, loaded = 8;
    const int64_t index = int64_t{blockIdx.x} * rnn_newton_scan_block + static_cast<int>(threadIdx.x);
    const int64_t entries = f.p.state_rows * f.p.width, number = entries * f.segments;
    if (index >= entries) return;
    const int64_t row = index / f.p.width, unit = index - row * f.p.width;
    const int64_t place = row * f.segments * f.p.width + unit;
    const Wide* const __restrict__ maps = static_cast<const Wide*>(f.maps);
    Wide* const __restrict__ carries = static_cast<Wide*>(f.carries);
    Wide carry[S];
#pragma unroll
    for (int s = 0; s < S; ++s)
        carry[s] =
            f.p.grad_state_out != nullptr ? static_cast<const Wide*>(f.p.grad_state_out)[s * entries + index] : Wide(0);
#pragma unroll 1
    for (int last = f.segments - 1; last >= 0; last -= loaded) {
        Wide map[loaded][(S + 1) * S];
#pragma unroll
        for (int k = 0; k < loaded; ++k)
#pragma unroll
            for (int i = 0; i < (S + 1) * S; ++i) map[k][i] = maps[i * number + place + max(last - k, 0) * f.p.width];
#pragma unroll
        for (int k = 0; k < loaded; ++k) {
            if (last - k < 0) break;
            Wide before[S];
#pragma unroll
            for (int s = 0; s < S; ++s) {
                carries[s * number + place + (last - k) * f.p.width] = carry[s];
                before[s] = map[k][s];
            }
            // A carry of 0 adds nothing, whatever the slope is.
#pragma unroll
            for (int j = 0; j < S; ++j)
#pragma unroll
                for (int s = 0; s < S; ++s)
                    before[s] =
                        carry[j] != Wide(0) ? multiply_add(map[k][(j + 1) * S + s], carry[j], before[s]) : before[s];
#pragma unroll
            for (int s = 0; s < S; ++s) carry[s] = before[s];
        }
    }
}

// Finds what each segment does to the carry.
template <typename X, typename Cell>
__global__ void __launch_bounds__(rnn_diagonal_units, 1)
    rnn_diagonal_newton_maps(const __grid_constant__ RnnDiagonalParams f) {
    RnnDiagonalBackward<X, Cell, true, true>(f).run();
}

}  // namespace flashscan::cuda
