// SPDX-License-Identifier: Apache-2.0
// The kernel "decode" (decode.cuh) on tensor cores, rnn_decode_tensor_cores, for many products.
//
// Tensor cores multiply R's rows of a block, [gates, units], by h of all rows of the batch. With 16-bit data h is
// rounded to 16 bits; f32 are split into two tf32 each, high + low, and high high + high low + low high are added up.
// The warps share the k, as k-tiles of 32 (Pieces); every number of R and h is loaded by one lane of a block, to
// registers, and sums of warps are added through shared memory. A block's units belong to one head.
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "cuda/device/math/split_tf32.cuh"
#include "cuda/device/ptx/mma.cuh"
#include "cuda/rnn/decode/cells.cuh"

namespace flashscan::cuda {

// sum += left right for one k-tile: `left` has rows of R, `right` the numbers of h of each batch row.
template <typename X, int M, int N>
__device__ __forceinline__ void rnn_step_multiply(const Pack<X, 8> (&left)[2 * M], const float4 (&right)[N][2],
                                                  int rows, float (&sum)[M][N][4]) {
    if constexpr (sizeof(X) == 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float4 h = right[n][half];
                const uint32_t low = Element<X>::narrow_pair(h.x, h.y), high = Element<X>::narrow_pair(h.z, h.w);
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    const auto &upper = left[2 * m].part, &lower = left[2 * m + 1].part;
                    const uint32_t a[4] = {upper[2 * half], lower[2 * half], upper[2 * half + 1], lower[2 * half + 1]};
                    ptx::multiply_add<X>(sum[m][n], a, low, high);
                }
            }
    } else {
#pragma unroll
        for (int k = 0; k < 8; k += 2) {
            uint32_t high[N][2], low[N][2];
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float4 h = right[n][k / 4];
                split_tf32(k % 4 == 0 ? h.x : h.z, high[n][0], low[n][0]);
                split_tf32(k % 4 == 0 ? h.y : h.w, high[n][1], low[n][1]);
            }
#pragma unroll
            for (int m = 0; m < M; ++m) {
                uint32_t a[4], rest[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) split_tf32(left[2 * m + i % 2].part[k + i / 2], a[i], rest[i]);
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    if (n * 8 >= rows) break;
                    ptx::multiply_add_tf32(sum[m][n], rest, high[n]);
                    ptx::multiply_add_tf32(sum[m][n], a, low[n]);
                    ptx::multiply_add_tf32(sum[m][n], a, high[n]);
                }
            }
        }
    }
}

template <typename X, typename Cell, bool Pooled>
__global__ void __launch_bounds__(32 * rnn_step_matrix_warps, 1)
    rnn_decode_tensor_cores(const __grid_constant__ RnnStepParams p) {
    using Unit = RnnStepUnit<X, X, Cell>;
    using Grid = cooperative_groups::grid_group;
    constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states;
    constexpr int Pieces = rnn_step_matrix_pieces;
    constexpr int most_m = rnn_step_matrix_rows, most_n = rnn_step_most_rows;
    __shared__ float parts[rnn_step_matrix_warps][most_m][most_n];

    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32, warp = thread / 32, warps = static_cast<int>(blockDim.x) / 32, r = lane / 4;
    const int first = static_cast<int>(blockIdx.x) * p.units, head = first / p.dim;
    const auto row_of = [&](int row) {
        return row < p.rows ? static_cast<int32_t>(indexed_row(p.states.indices, row, p.states.rows)) : -1;
    };
    const auto begins = [&](int row) { return p.states.in == nullptr || (p.reset != nullptr && p.reset[row] != 0); };
    const auto place_of = [&](int piece) { return ((piece * warps + warp) * 4 + lane % 4) * 8; };

    // R: row gate * units + unit of the block, every eighth in a lane.
    Pack<X, 8> left[Pieces][most_m / 8];
#pragma unroll
    for (int i = 0; i < Pieces; ++i)
#pragma unroll
        for (int m = 0; m < most_m / 8; ++m) {
            const int of_block = m * 8 + r;
            int gate = 0;  // of_block / p.units
#pragma unroll
            for (int g = 1; g <= G; ++g) gate += static_cast<int>(of_block >= g * p.units);
            const int unit = of_block - gate * p.units;
            left[i][m] = {};
            if (gate < G && place_of(i) < p.dim)
                left[i][m] = *reinterpret_cast<const Pack<X, 8>*>(
                    static_cast<const X*>(p.weight) + (int64_t{gate} * p.width + first + unit) * p.dim + place_of(i));
        }
    float4 right[Pieces][most_n / 8][2];
#pragma unroll
    for (int n = 0; n < most_n / 8; ++n) {
        const int row = n * 8 + r;
        const int32_t state = row_of(row);
        const bool has = state >= 0 && !begins(row);
#pragma unroll
        for (int i = 0; i < Pieces; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                right[i][n][half] = {};
                if (has && place_of(i) < p.dim)
                    right[i][n][half] = *reinterpret_cast<const float4*>(
                        reinterpret_cast<const float*>(p.states.in + state * p.states.in_step) + head * p.dim +
                        place_of(i) + 4 * half);
            }
    }
    // The first threads run the cells. What these need is loaded here and used only when the products are done.
    const int unit = thread / most_n, row = thread % most_n, w = first + unit;
    const bool works = unit < p.units && row < p.rows;
    int32_t from = -1, to = -1;
    X input[G] = {}, bias[P] = {};
    float state[S] = {};
    if (works) {
        to = row_of(row);
        if (to >= 0 && !begins(row)) from = to;
#pragma unroll
        for (int g = 0; g < G; ++g)
            input[g] = static_cast<const X*>(p.input)[g * p.input_strides.state + row * p.input_strides.batch + w];
#pragma unroll
        for (int j = 0; j < P; ++j)
            if (p.bias != nullptr) bias[j] = static_cast<const X*>(p.bias)[int64_t{j} * p.width + w];
#pragma unroll
        for (int s = 0; s < S; ++s)
            if (from >= 0)
                state[s] = reinterpret_cast<const float*>(p.states.in + from * p.states.in_step + s * p.in_state)[w];
    }

    // Sums of rows 2 and 3 of every four lie 8 columns off, so that stores of a warp use all banks.
    const auto place_of_sum = [](int m, int column) { return column ^ (m & 2) << 2; };
    float sum[most_m / 16][most_n / 8][4] = {};
#pragma unroll
    for (int i = 0; i < Pieces; ++i) rnn_step_multiply<X>(left[i], right[i], p.rows, sum);
#pragma unroll
    for (int m = 0; m < most_m / 16; ++m)
#pragma unroll
        for (int n = 0; n < most_n / 8; ++n)
#pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                const int of_block = m * 16 + lower * 8 + r;
                *reinterpret_cast<float2*>(&parts[warp][of_block][place_of_sum(of_block, n * 8 + lane % 4 * 2)]) =
                    make_float2(sum[m][n][2 * lower], sum[m][n][2 * lower + 1]);
            }
    __syncthreads();
    [[maybe_unused]] typename Grid::arrival_token token{};
    if constexpr (Pooled) {
        // The compiler must wait for the loads of h before the block arrives, since STATE_OUT may overwrite h then.
#pragma unroll
        for (int s = 0; s < S; ++s) asm volatile("" : "+f"(state[s])::"memory");
        token = cooperative_groups::this_grid().barrier_arrive();
    }
    float pre[P] = {};
    if (works) {
#pragma unroll
        for (int j = 0; j < P; ++j) pre[j] = Element<X>::widen(bias[j]);
        float products[G] = {};
#pragma unroll
        for (int i = 0; i < rnn_step_matrix_warps; ++i) {
            if (i == warps) break;
#pragma unroll
            for (int g = 0; g < G; ++g) {
                const int of_block = g * p.units + unit;
                products[g] += parts[i][of_block][place_of_sum(of_block, row)];
            }
        }
#pragma unroll
        for (int g = 0; g < G; ++g) {
            pre[g] += Element<X>::widen(input[g]);
            pre[Cell::recurrent(g)] += products[g];
        }
    }
    const Unit own{p, w, lane, row, works, from, to};
    own.run(pre, state, works, [&] {
        if constexpr (Pooled) cooperative_groups::this_grid().barrier_wait(std::move(token));
    });
}

}  // namespace flashscan::cuda
