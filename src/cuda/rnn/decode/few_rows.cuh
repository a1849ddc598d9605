// SPDX-License-Identifier: Apache-2.0
// The kernel "decode" for up to four batch entries, rnn_decode_few_rows: one step of a recurrent network in one launch,
// with R in registers.
//
//     raw = INPUT + R h + BIAS;   h', states' = cell(raw, states)
//
// Ownership  A warp has a unit of the network, with the rows of R of its gates, and all batch entries. Its lanes take
//            the k of the products in turn; their sums are added by shuffles, and a lane for each batch entry runs the
//            cell.
// Order      A warp asks for its rows of R first, since nothing has to be known for that, then for h, whose place in a
//            pool of states is known only when STATE_INDICES has arrived. Sums are formed in the order of decode.cuh,
//            so that both kernels give the same bits.
// Bytes      R is read once, from L2 where the step before left it there. Nothing goes through shared memory.
// Sync       No warp waits for another, but where STATE_OUT may be STATE_IN (a pool): there blocks arrive at a barrier
//            of the grid once they hold h, and store states when all have arrived.
// Limits     Up to rnn_step_direct_dim units a head, which is what registers hold.
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "cuda/rnn/decode/cells.cuh"

namespace flashscan::cuda {

template <typename X, typename W, typename Cell>
struct RnnDirectStep {
    using Unit = RnnStepUnit<X, W, Cell>;
    static constexpr int G = Cell::gates, rows = rnn_step_rows, sums = Unit::sums;
    static constexpr int V = 16 / static_cast<int>(sizeof(W)), packs = rnn_step_direct_dim / (32 * V);

    const RnnStepParams& p;
    int lane;
    Pack<W, V> factors[packs][G];
    float4 h[2][packs][V / 4];  // of two rows in turn

    __device__ __forceinline__ int place_of(int pack) const { return (pack * 32 + lane) * V; }

    __device__ __forceinline__ void load_weights(int w) {
        const W* const of_unit = static_cast<const W*>(p.weight) + int64_t{w} * p.dim;
#pragma unroll
        for (int i = 0; i < packs; ++i) {
            if (i * 32 * V >= p.dim) break;
#pragma unroll
            for (int g = 0; g < G; ++g) {
                factors[i][g] = {};
                if (place_of(i) < p.dim)
                    factors[i][g] =
                        *reinterpret_cast<const Pack<W, V>*>(of_unit + int64_t{g} * p.width * p.dim + place_of(i));
            }
        }
    }
    __device__ __forceinline__ void load_h(float4 (&to)[packs][V / 4], int32_t state, int head) const {
        const float* const of_row =
            state < 0 ? nullptr : reinterpret_cast<const float*>(p.states.in + state * p.states.in_step) + head * p.dim;
#pragma unroll
        for (int i = 0; i < packs; ++i) {
            if (i * 32 * V >= p.dim) break;
#pragma unroll
            for (int v = 0; v < V / 4; ++v) {
                to[i][v] = {};
                if (state >= 0 && place_of(i) < p.dim)
                    to[i][v] = *reinterpret_cast<const float4*>(of_row + place_of(i) + 4 * v);
            }
        }
    }

    // `from` is that of the lane's row.
    __device__ __forceinline__ void begin(int32_t from, int head) {
        load_h(h[0], __shfl_sync(0xffffffffU, from, 0), head);
    }
    __device__ __forceinline__ float multiply(int32_t from, int head) {
        float sum[sums] = {};
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            if (row >= p.rows) break;
            if (row + 1 < rows && row + 1 < p.rows)
                load_h(h[(row + 1) % 2], __shfl_sync(0xffffffffU, from, row + 1), head);
#pragma unroll
            for (int i = 0; i < packs; ++i) {
                if (i * 32 * V >= p.dim) break;
#pragma unroll
                for (int v = 0; v < V; v += 4) {
                    const float4 x = h[row % 2][i][v / 4];
#pragma unroll
                    for (int g = 0; g < G; ++g) {
                        float& s = sum[g * rows + row];
                        s = fmaf(factors[i][g].get(v), x.x, s);
                        s = fmaf(factors[i][g].get(v + 1), x.y, s);
                        s = fmaf(factors[i][g].get(v + 2), x.z, s);
                        s = fmaf(factors[i][g].get(v + 3), x.w, s);
                    }
                }
            }
        }
        return sum_over_lanes<32>(sum, lane);
    }
};

template <typename X, typename W, typename Cell, bool Pooled>
__global__ void __launch_bounds__(32 * rnn_step_direct_warps)
    rnn_decode_few_rows(const __grid_constant__ RnnStepParams p) {
    using Grid = cooperative_groups::grid_group;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int unit = static_cast<int>(blockIdx.x) * p.units + static_cast<int>(threadIdx.x / 32),
              w = min(unit, p.width - 1);
    RnnDirectStep<X, W, Cell> step{p, lane};
    step.load_weights(w);
    const int row = lane % rnn_step_rows;
    int32_t from = -1, to = -1;
    if (row < p.rows) {
        to = static_cast<int32_t>(indexed_row(p.states.indices, row, p.states.rows));
        if (p.states.in != nullptr && (p.reset == nullptr || p.reset[row] == 0)) from = to;
    }
    step.begin(from, w / p.dim);
    RnnStepUnit<X, W, Cell> own{p, w, lane, row, unit < p.width && row < p.rows, from, to};
    own.load();  // behind all other loads, as it waits for its own
    float product = step.multiply(from, w / p.dim);
    [[maybe_unused]] typename Grid::arrival_token token{};
    if constexpr (Pooled) {
        // The compiler must wait for the loads of h before the block arrives, since STATE_OUT may overwrite h then.
        asm volatile("" : "+f"(product), "+f"(own.own_state)::"memory");
        token = cooperative_groups::this_grid().barrier_arrive();
    }
    own.finish(product, [&] {
        if constexpr (Pooled) cooperative_groups::this_grid().barrier_wait(std::move(token));
    });
}

}  // namespace flashscan::cuda
