// SPDX-License-Identifier: Apache-2.0
// The kernel "decode", rnn_decode: one step of a recurrent network, as in decoding, in one launch.
//
//     raw = INPUT + R h + BIAS;   h', states' = cell(raw, states)
//
// Ownership  A block has a few units of the network, and copies their rows of R into its shared memory; all blocks
//            together have every unit. A warp has a unit and four rows of the batch: its lanes take the k of the
//            products in turn, sums of lanes are added by shuffles, and four lanes run the cells.
//            For up to four rows a warp loads R to its registers instead (few_rows.cuh), for more products tensor cores
//            multiply (tensor_cores.cuh).
// Bytes      R is read once, from L2 where the step before left it there; each block reads h of its heads, in f32.
// Sync       h of every unit is read by all blocks of a head. Where STATE_OUT may be STATE_IN (rows of a pool), blocks
//            arrive at a barrier of the grid once they hold h, and store states only when all have arrived: by then
//            they have multiplied, so nobody waits long. Without pools no block waits for another.
// Limits     Units and rows whose warps fit the blocks that run at once, and rows of R that fit shared memory.
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/rnn/decode/cells.cuh"

namespace flashscan::cuda {

template <typename X, typename W, typename Cell>
struct RnnOneStep {
    using Unit = RnnStepUnit<X, W, Cell>;
    static constexpr int G = Cell::gates, rows = rnn_step_rows, sums = Unit::sums;
    static constexpr int V = 16 / static_cast<int>(sizeof(W));  // numbers of R that a lane takes at once

    const RnnStepParams& p;
    W* weights;          // [units, G, padded]
    float* states;       // [heads, tiles rows, padded], permuted by place_of
    int32_t *from, *to;  // [tiles rows]: the row of STATE_IN and STATE_OUT, or -1
    int lane, warp;
    int first;  // the block's first unit
    int first_head;
    int count;  // its units

    __device__ __forceinline__ RnnOneStep(const RnnStepParams& params, char* memory, int32_t* from, int32_t* to)
        : p(params),
          weights(reinterpret_cast<W*>(memory)),
          states(reinterpret_cast<float*>(memory + int64_t{params.units} * G * params.padded * sizeof(W))),
          from(from),
          to(to),
          lane(static_cast<int>(threadIdx.x % 32)),
          warp(static_cast<int>(threadIdx.x / 32)),
          first(static_cast<int>(blockIdx.x) * params.units),
          first_head(first / params.dim),
          count(min(params.units, params.width - first)) {}

    __device__ __forceinline__ int all_rows() const { return p.tiles * rows; }
    // The place of number k of a row of h. Lanes load V numbers, four at a time; in this order neighbouring lanes load
    // neighbouring fours.
    __device__ __forceinline__ int place_of(int k) const {
        if constexpr (V == 8) return (k % 8 / 4 * (p.padded / 8) + k / 8) * 4 + k % 4;
        return k;
    }

    __device__ __forceinline__ void find_rows() const {
        const auto i = static_cast<int>(threadIdx.x);
        if (i >= all_rows()) return;
        int32_t row = -1;
        if (i < p.rows) row = static_cast<int32_t>(indexed_row(p.states.indices, i, p.states.rows));
        to[i] = row;
        const bool reset = row >= 0 && p.reset != nullptr && p.reset[i] != 0;
        from[i] = reset || p.states.in == nullptr ? -1 : row;
    }

    // Copies the block's rows of R to shared memory: warps take rows in turn, the lanes of a warp share a row's
    // numbers.
    __device__ __forceinline__ void copy_weights() const {
        const auto warps = static_cast<int>(blockDim.x / 32);
        for (int i = warp; i < count * G; i += warps) {
            const int unit = i / G, gate = i - unit * G;
            const W* const row = static_cast<const W*>(p.weight) + (int64_t{gate} * p.width + first + unit) * p.dim;
            W* const copy = weights + i * p.padded;
            if (p.whole != 0)
                for (int k = lane * V; k < p.dim; k += 32 * V) ptx::copy_async<16>(copy + k, row + k);
            else
                for (int k = lane; k < p.padded; k += 32) copy[k] = k < p.dim ? row[k] : W(0.0F);
        }
        ptx::end_copy_group();
    }
    // Copies h of the block's heads, in the same way, four numbers at a time; rows without a state become zeros.
    __device__ __forceinline__ void copy_h() const {
        const int heads = (first + count - 1) / p.dim - first_head + 1, all = heads * all_rows();
        for (int i = warp; i < all; i += static_cast<int>(blockDim.x / 32)) {
            const int head = i / all_rows(), state = from[i - head * all_rows()];
            const float* row = nullptr;
            if (state >= 0)
                row = reinterpret_cast<const float*>(p.states.in + state * p.states.in_step) +
                      (first_head + head) * p.dim;
            float* const copy = states + i * p.padded;
            for (int k = lane * 4; k < p.padded; k += 32 * 4) {
                float4 h = {};
                if (row != nullptr && p.aligned != 0) {
                    h = *reinterpret_cast<const float4*>(row + k);
                } else if (row != nullptr) {
                    float* const numbers = &h.x;
#pragma unroll
                    for (int v = 0; v < 4; ++v)
                        if (k + v < p.dim) numbers[v] = row[k + v];
                }
                *reinterpret_cast<float4*>(copy + place_of(k)) = h;
            }
        }
    }

    // Multiplies R by h for the warp's unit and rows. Sum number gate * rows + row is returned in the lanes that
    // sum_over_lanes leaves it in.
    __device__ __forceinline__ float multiply(int unit, const float* h) const {
        float sum[sums] = {};
        const W* const r = weights + unit * G * p.padded;
        const int planes = V == 8 ? p.padded / 2 : 0;
        for (int k = lane * V; k < p.padded; k += 32 * V) {
            Pack<W, V> factors[G];
#pragma unroll
            for (int g = 0; g < G; ++g) factors[g] = *reinterpret_cast<const Pack<W, V>*>(r + g * p.padded + k);
            const float* const from = h + (V == 8 ? k / 2 : k);
#pragma unroll
            for (int part = 0; part < V; part += 4)
#pragma unroll
                for (int row = 0; row < rows; ++row) {
                    const float4 x = *reinterpret_cast<const float4*>(from + row * p.padded + part / 4 * planes);
#pragma unroll
                    for (int g = 0; g < G; ++g) {
                        float& s = sum[g * rows + row];
                        s = fmaf(factors[g].get(part), x.x, s);
                        s = fmaf(factors[g].get(part + 1), x.y, s);
                        s = fmaf(factors[g].get(part + 2), x.z, s);
                        s = fmaf(factors[g].get(part + 3), x.w, s);
                    }
                }
        }
        return sum_over_lanes<32>(sum, lane);
    }

    // If Pooled, blocks wait at a barrier of the grid before states are stored.
    template <bool Pooled>
    __device__ __forceinline__ void run() const {
        using Grid = cooperative_groups::grid_group;
        copy_weights();
        find_rows();
        __syncthreads();
        // Warps beyond the last unit compute the last one again and store nothing.
        const int unit = min(warp / p.tiles, count - 1), tile = warp % p.tiles, row = tile * rows + lane % rows;
        const int w = first + unit, head = w / p.dim;
        const bool exists = warp / p.tiles < count && row < p.rows;
        Unit own{p, w, lane, row, exists, from[row], to[row]};
        own.load();
        copy_h();
        ptx::wait_for_copy_groups<0>();
        __syncthreads();
        [[maybe_unused]] typename Grid::arrival_token token{};
        if constexpr (Pooled) token = cooperative_groups::this_grid().barrier_arrive();
        own.finish(multiply(unit, states + ((head - first_head) * all_rows() + tile * rows) * p.padded), [&] {
            if constexpr (Pooled) cooperative_groups::this_grid().barrier_wait(std::move(token));
        });
    }
};

template <typename X, typename W, typename Cell, bool Pooled>
__global__ void __launch_bounds__(32 * rnn_step_warps) rnn_decode(const __grid_constant__ RnnStepParams p) {
    extern __shared__ __align__(16) char memory[];
    __shared__ int32_t from[rnn_step_most_rows], to[rnn_step_most_rows];
    RnnOneStep<X, W, Cell>(p, memory, from, to).template run<Pooled>();
}

}  // namespace flashscan::cuda
