// SPDX-License-Identifier: Apache-2.0
// The kernel "step": one step of a recurrent network, as in decoding, in one launch.
//
//     raw = INPUT + R h + BIAS;   h', states' = cell(raw, states)
//
// Ownership  A block has a few units of the network, and copies their rows of R into its shared memory; all blocks
//            together have every unit. A warp has a unit and four rows of the batch: its lanes take the k of the
//            products in turn, sums of lanes are added by shuffles, and four lanes run the cells.
//            For up to four rows a warp loads R to its registers instead (RnnDirectStep), for more products in 16
//            bits tensor cores multiply (rnn_matrix_step).
// Bytes      R is read once, from L2 where the step before left it there; each block reads h of its heads, in f32.
// Sync       h of every unit is read by all blocks of a head. Where STATE_OUT may be STATE_IN (rows of a pool), blocks
//            arrive at a barrier of the grid once they hold h, and store states only when all have arrived: by then
//            they have multiplied, so nobody waits long. Without pools no block waits for another.
// Limits     Units and rows whose warps fit the blocks that run at once, and rows of R that fit shared memory.
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/ptx/mma.cuh"
#include "cuda/device/scan/lane_sums.cuh"
#include "cuda/device/tile/step_rows.cuh"
#include "cuda/rnn/real.cuh"
#include "cuda/rnn/step/params.h"

namespace flashscan::cuda {

// The cells of a warp: those of one unit for four rows, in its first lanes.
template <typename X, typename W, typename Cell>
struct RnnStepUnit {
    using Real = RnnStepReal<X>;
    static constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, rows = rnn_step_rows;
    static constexpr int sums = G * rows > 8 ? 16 : 8;  // a power of two

    const RnnStepParams& p;
    int w, lane, row;  // the unit, and the lane's row of the batch
    bool exists;
    int32_t from, to;  // the row of STATE_IN and STATE_OUT, or -1
    float own_pre = 0, own_state = 0;

    // Lane number * rows + row loads that number of the row's pre-activations, and of its states, which are handed to the
    // first lanes later.
    __device__ __forceinline__ void load() {
        const int number = lane / rows;
        if (!exists) return;
        if (number < G)
            own_pre = Element<X>::widen(
                static_cast<const X*>(p.input)[number * p.input_strides.state + row * p.input_strides.batch + w]);
        if (number < P && p.bias != nullptr)
            own_pre += Element<W>::widen(static_cast<const W*>(p.bias)[int64_t{number} * p.width + w]);
        if (number < S && from >= 0)
            own_state = reinterpret_cast<const float*>(p.states.in + from * p.states.in_step + number * p.in_state)[w];
    }

    // `product` is R h as sum_over_lanes leaves it: sum number gate * rows + row. Calls wait() before it stores states.
    template <typename Wait>
    __device__ __forceinline__ void finish(float product, Wait&& wait) const {
        const auto of_row = [&](float own, int number) {
            return __shfl_sync(0xffffffffU, own, number * rows + lane % rows);
        };
        float pre[P], state[S];
#pragma unroll
        for (int j = 0; j < P; ++j) pre[j] = of_row(own_pre, j);
#pragma unroll
        for (int s = 0; s < S; ++s) state[s] = of_row(own_state, s);
#pragma unroll
        for (int g = 0; g < G; ++g)
            pre[Cell::recurrent(g)] += __shfl_sync(0xffffffffU, product, (g * rows + lane % rows) * (32 / sums));
        run(pre, state, exists && lane < rows, wait);
    }
    // The cell of the lane, if it `works`.
    template <typename Wait>
    __device__ __forceinline__ void run(const float (&pre)[P], float (&state)[S], bool works, Wait&& wait) const {
        Real raw[P], after[S], keep[Cell::kept];
        as_numbers(pre, raw);
        as_numbers(state, after);
        Cell::forward(raw, after, keep);
        as_values(after, state);
        const int32_t now = works ? to : -1;
        if (works) {
            auto* const y = static_cast<X*>(p.output) + row * p.output_strides.batch + w;
#pragma unroll
            for (int s = 0; s < S; ++s)
                if (s < p.output_states) y[s * p.output_strides.state] = Element<X>::narrow(now >= 0 ? state[s] : 0.0F);
        }
        wait();
        if (now < 0 || p.states.out == nullptr) return;
#pragma unroll
        for (int s = 0; s < S; ++s)
            reinterpret_cast<float*>(p.states.out + now * p.states.out_step + s * p.out_state)[w] = state[s];
    }
};

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
    // Where number k of a row of h lies: lanes that load V numbers, four at a time, then load neighbours.
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

    // A warp has every so many rows of R, its lanes the numbers of a row.
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
    // The same for rows of h, four numbers at a time.
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

    // Adds up R h of the warp's unit and rows: sum number gate * rows + row, in the lanes that sum_over_lanes says.
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

    // `Pooled` tells that blocks meet before states are stored.
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
__global__ void __launch_bounds__(32 * rnn_step_warps) rnn_one_step(const __grid_constant__ RnnStepParams p) {
    extern __shared__ __align__(16) char memory[];
    __shared__ int32_t from[rnn_step_most_rows], to[rnn_step_most_rows];
    RnnOneStep<X, W, Cell>(p, memory, from, to).template run<Pooled>();
}

// Up to four rows: every number of R is used by one warp alone, which loads its rows of R to registers, before anything that
// waits for an index, and h behind them. Nothing goes through shared memory, and no warp waits for another, but for the
// barrier of pools. The sums are formed in the order of the kernel above.
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
__global__ void __launch_bounds__(32 * rnn_step_direct_warps) rnn_direct_step(const __grid_constant__ RnnStepParams p) {
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
        asm volatile("" : "+f"(product), "+f"(own.own_state)::"memory");  // h has arrived before the block says so
        token = cooperative_groups::this_grid().barrier_arrive();
    }
    own.finish(product, [&] {
        if constexpr (Pooled) cooperative_groups::this_grid().barrier_wait(std::move(token));
    });
}

// More products, in 16 bits: tensor cores multiply R's rows of a block, [gates, units], by h of all rows of the batch, rounded to
// 16 bits. The warps share the k; every number of R and h is loaded by one lane of a block, to registers, and sums of warps
// are added through shared memory. A block's units belong to one head.
template <typename X, typename Cell, bool Pooled>
__global__ void __launch_bounds__(32 * rnn_step_matrix_warps) rnn_matrix_step(const __grid_constant__ RnnStepParams p) {
    using Unit = RnnStepUnit<X, X, Cell>;
    using Grid = cooperative_groups::grid_group;
    constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states;
    constexpr int most_m = rnn_step_matrix_rows, most_n = rnn_step_most_rows, depth = 32;  // of k, 8 numbers in a lane
    constexpr int pieces = rnn_step_direct_dim / (depth * rnn_step_matrix_warps);
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
    Pack<X, 8> left[pieces][most_m / 8];
#pragma unroll
    for (int i = 0; i < pieces; ++i)
#pragma unroll
        for (int m = 0; m < most_m / 8; ++m) {
            const int of_block = m * 8 + r, gate = of_block / p.units, unit = of_block - gate * p.units;
            left[i][m] = {};
            if (gate < G && place_of(i) < p.dim)
                left[i][m] = *reinterpret_cast<const Pack<X, 8>*>(
                    static_cast<const X*>(p.weight) + (int64_t{gate} * p.width + first + unit) * p.dim + place_of(i));
        }
    float4 right[pieces][most_n / 8][2];
#pragma unroll
    for (int n = 0; n < most_n / 8; ++n) {
        const int row = n * 8 + r;
        const int32_t state = row_of(row);
        const bool has = state >= 0 && !begins(row);
#pragma unroll
        for (int i = 0; i < pieces; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                right[i][n][half] = {};
                if (has && place_of(i) < p.dim)
                    right[i][n][half] = *reinterpret_cast<const float4*>(
                        reinterpret_cast<const float*>(p.states.in + state * p.states.in_step) + head * p.dim +
                        place_of(i) + 4 * half);
            }
    }
    // The cells are those of the first threads. What they need is loaded now and looked at when the products are there.
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

    float sum[most_m / 16][most_n / 8][4] = {};
#pragma unroll
    for (int i = 0; i < pieces; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < most_n / 8; ++n) {
                const float4 h = right[i][n][half];
                const uint32_t low = Element<X>::narrow_pair(h.x, h.y), high = Element<X>::narrow_pair(h.z, h.w);
#pragma unroll
                for (int m = 0; m < most_m / 16; ++m) {
                    const auto &upper = left[i][2 * m].part, &lower = left[i][2 * m + 1].part;
                    const uint32_t a[4] = {upper[2 * half], lower[2 * half], upper[2 * half + 1], lower[2 * half + 1]};
                    ptx::multiply_add<X>(sum[m][n], a, low, high);
                }
            }
#pragma unroll
    for (int m = 0; m < most_m / 16; ++m)
#pragma unroll
        for (int n = 0; n < most_n / 8; ++n)
#pragma unroll
            for (int lower = 0; lower < 2; ++lower)
                *reinterpret_cast<float2*>(&parts[warp][m * 16 + lower * 8 + r][n * 8 + lane % 4 * 2]) =
                    make_float2(sum[m][n][2 * lower], sum[m][n][2 * lower + 1]);
    __syncthreads();
    [[maybe_unused]] typename Grid::arrival_token token{};
    if constexpr (Pooled) {
#pragma unroll
        for (int s = 0; s < S; ++s)
            asm volatile("" : "+f"(state[s])::"memory");  // has arrived before the block says so
        token = cooperative_groups::this_grid().barrier_arrive();
    }
    float pre[P] = {};
    if (works) {
#pragma unroll
        for (int j = 0; j < P; ++j) pre[j] = Element<X>::widen(bias[j]);
#pragma unroll
        for (int g = 0; g < G; ++g) {
            float product = 0;
            for (int i = 0; i < warps; ++i) product += parts[i][g * p.units + unit][row];
            pre[g] += Element<X>::widen(input[g]);
            pre[Cell::recurrent(g)] += product;
        }
    }
    const Unit own{p, w, lane, row, works, from, to};
    own.run(pre, state, works, [&] {
        if constexpr (Pooled) cooperative_groups::this_grid().barrier_wait(std::move(token));
    });
}

}  // namespace flashscan::cuda
