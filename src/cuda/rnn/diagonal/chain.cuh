// SPDX-License-Identifier: Apache-2.0
// The chains of steps of a warp, for both passes of "diagonal": the warp's row and units, their places in the tensors
// of a call, and their elements of R and BIAS.
//
// Data are fetched ahead in registers, a chunk of steps at a time (RnnFetched): while a chunk is computed, the loads of
// the next one are under way. A load that a step has to wait for would take ten times as long as the step. Where
// there are few warps, each has many registers and fetches far ahead (deep); where there are many, registers are held
// to what lets rnn_resident_warps of them share a multiprocessor, and their number covers the latency.
#pragma once

#include "cuda/device/math/quick_single.cuh"
#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/rnn/diagonal/params.h"
#include "cuda/rnn/real.cuh"
#include "math/rnn.h"

namespace flashscan::cuda {

template <typename X, typename Cell, bool Deep>
struct RnnFetched {
    static constexpr int words = sizeof(X) == 8 ? 2 : 1;
    static constexpr int forward = rnn_fetched_steps(Cell::gates * words, Deep ? 32 : 8);
    // Backward reads so many numbers for a step: those that the cell keeps, the gradients of the states and, unless
    // kept, h.
    static constexpr int numbers = Cell::kept + Cell::states + (Cell::keeps_h ? 0 : 1);
    static constexpr int backward = rnn_fetched_steps(numbers * words, Deep ? 64 : 16);
};

template <typename X, bool Deep>
constexpr int rnn_resident_warps = Deep             ? 1
                                   : sizeof(X) == 8 ? 8
                                                    : 16;

// Points to the lane's element of a step in a tensor. move() takes it to the next step of the pass.
template <typename T>
struct RnnCursor {
    T* at = nullptr;  // null where the call has no such tensor
    int64_t step = 0;
    __device__ __forceinline__ void move() { at += step; }
};

struct RnnChain {
    int64_t row, warp, unit;  // warp: which one of its row
    int64_t tensor_row;       // the row in tensors; packed sequences share one
    int64_t begin;            // the time of the first step
    int64_t count;            // steps
    int lane, sign;           // sign: how the time changes from one step to the next

    __device__ __forceinline__ explicit RnnChain(const RnnDiagonalParams& f)
        : RnnChain(f, blockIdx.x, static_cast<int>(threadIdx.x)) {}
    // Chain `index`: rows after each other, the warps of a row together.
    __device__ __forceinline__ RnnChain(const RnnDiagonalParams& f, int64_t index, int lane) : lane(lane) {
        const RnnParams& p = f.p;
        row = index / f.warps;
        warp = index - row * f.warps;
        // Lanes beyond the last unit repeat it and store the same values: to its place in tensors, and to places of
        // their own in RESERVE.
        unit = min(warp * rnn_diagonal_units + lane, p.width - 1);
        const bool packed = f.offsets.data != nullptr;
        const int64_t from = packed ? load_offset(f.offsets, row) : int64_t{0};
        const int64_t to = packed ? load_offset(f.offsets, row + 1) : p.time;
        tensor_row = packed ? 0 : row;
        count = max(to - from, int64_t{0});
        sign = p.reverse != 0 ? -1 : 1;
        begin = p.reverse != 0 ? to - 1 : from;
    }
    // Keeps the steps of one segment of `segments`, which may be none.
    __device__ __forceinline__ void cut(int segment, int segments) {
        const int64_t steps = (count + segments - 1) / segments, first = min(segment * steps, count);
        begin += sign * first;
        count = min(count - first, steps);
    }
    // The lane's place in a tensor of the call at step i, from which the cursor moves forward or back.
    template <typename T>
    __device__ __forceinline__ RnnCursor<T> in_tensor(T* data, const RnnTensorStrides& s, int64_t i = 0,
                                                      int direction = 1) const {
        return {data + (tensor_row * s.batch + (begin + sign * i) * s.time + unit), direction * sign * s.time};
    }
    // The same in RESERVE, of which a step holds `kept` numbers, rnn_diagonal_units apart.
    template <typename T>
    __device__ __forceinline__ RnnCursor<T> in_reserve(const RnnDiagonalParams& f, void* data, int kept, int64_t i = 0,
                                                       int direction = 1) const {
        const int64_t block = kept * rnn_diagonal_units, step = f.p.rows * f.warps * block;
        return {static_cast<T*>(data) + ((begin + sign * i) * step + (tensor_row * f.warps + warp) * block + lane),
                direction * sign * step};
    }
    // The lane's index in an array [states, state rows, units].
    __device__ __forceinline__ int64_t in_rows(const RnnParams& p, int s) const {
        return (s * p.state_rows + row) * p.width + unit;
    }
    template <typename Wide, int S>
    __device__ __forceinline__ void load_states(const RnnParams& p, const void* data, Wide (&state)[S]) const {
#pragma unroll
        for (int s = 0; s < S; ++s)
            state[s] = data != nullptr ? static_cast<const Wide*>(data)[in_rows(p, s)] : Wide(0);
    }
    template <typename Wide, int S>
    __device__ __forceinline__ void store_rows(const RnnParams& p, void* data, const Wide (&numbers)[S]) const {
        if (data == nullptr) return;
#pragma unroll
        for (int s = 0; s < S; ++s) static_cast<Wide*>(data)[in_rows(p, s)] = numbers[s];
    }

    // Loads the reset flag of step i + k in lane k; it is 0 where there is no such step, or no RESET.
    __device__ __forceinline__ uint8_t load_resets(const RnnParams& p, int64_t i) const {
        if (p.reset == nullptr || i + lane >= count) return 0;
        return p.reset[tensor_row * p.time + begin + sign * (i + lane)];
    }
    // Bit k says whether step i + k resets.
    static __device__ __forceinline__ uint32_t resets_of(const RnnParams& p, uint8_t loaded) {
        return p.reset == nullptr ? 0 : __ballot_sync(0xffffffffU, loaded != 0);
    }
};

// Loads a number of R or BIAS.
template <typename X>
__device__ __forceinline__ typename Element<X>::Wide rnn_parameter(const RnnDiagonalParams& f, const void* data,
                                                                   int64_t i) {
    using Wide = typename Element<X>::Wide;
    if (f.wide_weights != 0) return static_cast<const Wide*>(data)[i];
    return Element<X>::widen(static_cast<const X*>(data)[i]);
}
template <typename X, typename Wide, int N>
__device__ __forceinline__ void load_parameters(const RnnDiagonalParams& f, const void* data, int64_t unit,
                                                Wide (&numbers)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i)
        numbers[i] = data != nullptr ? rnn_parameter<X>(f, data, i * f.p.width + unit) : Wide(0);
}

// Cells are computed in this type. f32 has faster functions here than elsewhere, since every step waits for its cell.
template <typename X>
using RnnChainReal = std::conditional_t<std::is_same_v<X, float>, QuickSingle, typename RnnReal<X>::Type>;

// A step of a unit: x, which is INPUT, takes `state` from before the step to after it.
template <typename X, typename Cell, typename Wide, int G, int P, int S, int K>
__device__ __forceinline__ void rnn_chain_step(const X (&x)[G], const Wide (&weight)[G], const Wide (&bias)[P],
                                               Wide (&state)[S], RnnChainReal<X> (&keep)[K]) {
    using Real = RnnChainReal<X>;
    Wide sums[P];
#pragma unroll
    for (int j = 0; j < P; ++j) sums[j] = j < G ? Element<X>::widen(x[j < G ? j : 0]) + bias[j] : bias[j];
#pragma unroll
    for (int g = 0; g < G; ++g) {
        Wide factor = state[0];
        if constexpr (Cell::resets_before)
            if (g == G - 1) factor = value_of(Cell::reset(Real(sums[0]), Real(state[0])));
        Wide& sum = sums[Cell::recurrent(g)];
        sum = multiply_add(weight[g], factor, sum);
    }
    Real pre[P], now[S];
    as_numbers(sums, pre);
    as_numbers(state, now);
    Cell::forward(pre, now, keep);
    as_values(now, state);
}

// Returns the part of the gradient of h before a step that comes through R, R^T d_pre; `before` are the states before
// the step. Completes d_pre of cells that reset before the product.
template <typename Cell, typename Wide, int G, int P, int S, int K>
__device__ __forceinline__ Wide rnn_chain_through(const Wide (&weight)[G], const Wide (&keep)[K],
                                                  const Wide (&before)[S], Wide (&d_pre)[P]) {
    Wide through(0);
#pragma unroll
    for (int g = G - 1; g >= 0; --g) {
        through = multiply_add(weight[g], d_pre[Cell::recurrent(g)], through);
        if constexpr (Cell::resets_before)
            if (g == G - 1) through = Cell::backward_reset(keep, before, through, d_pre);
    }
    return through;
}

}  // namespace flashscan::cuda
