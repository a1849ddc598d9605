// SPDX-License-Identifier: Apache-2.0
// The gradient of a gate that is broadcast over batch, time or channels: first partial sums in the arithmetic's dtype,
// each by one lane or one fixed tree, then `reduce_gate_gradient`, which adds the partial sums in a fixed order.
#pragma once

#include "cuda/kernels/walk.cuh"

namespace flashscan::cuda {

// A lane's share of the partial sums [batches, partial_time, partial_rows]: over its steps if the gate is broadcast
// over time, over the rows of its warp if over channels. Broadcast over batch alone leaves one partial sum an element.
template <typename Ty, typename Shape>
struct GateGradientSum {
    using GateWide = typename Ty::GateWide;
    static constexpr int V = Shape::V;
    const LinearParams& p;
    const Lane& lane;
    GateWide sum[V]{};

    __device__ __forceinline__ GateWide* slot(int64_t time_slot, int64_t row_slot) const {
        return static_cast<GateWide*>(p.partial) + (lane.batch * p.partial_time + time_slot) * p.partial_rows +
               row_slot;
    }

    static __device__ __forceinline__ GateWide butterfly(GateWide value, int from, int to) {
        for (int distance = from; distance < to; distance *= 2)
            value = value + shuffle(value, static_cast<int>(threadIdx.x & 31U) ^ distance);
        return value;
    }

    // Takes the gradient at one step. Sums over rows and not over time need all 32 lanes here at once.
    __device__ __forceinline__ void add(int64_t group, int step, int v, GateWide value) {
        if (p.sum_time || (p.sum_rows && v < V - 1)) {
            if (v < lane.rows) sum[v] = sum[v] + value;
            return;
        }
        const int64_t time_slot = lane.t0 + step - p.begin;
        if (!p.sum_rows) {
            if (v < lane.rows) *slot(time_slot, lane.row + v) = value;
            return;
        }
        GateWide mine = v < lane.rows ? value : GateWide{};
        for (int other = 0; other < V - 1; ++other) {
            mine = sum[other] + mine;
            sum[other] = GateWide{};
        }
        mine = butterfly(mine, 1, 32);
        if ((threadIdx.x & 31U) == 0) *slot(time_slot, group) = mine;
    }

    // Sums over time, complete: of a warp whose lanes hold rows only.
    __device__ __forceinline__ void write_warp(int64_t group) const {
        if (!p.sum_rows) {
            for (int v = 0; v < lane.rows; ++v) *slot(0, lane.row + v) = sum[v];
            return;
        }
        GateWide total = sum[0];
        for (int v = 1; v < V; ++v) total = total + sum[v];
        total = butterfly(total, 1, 32);
        if ((threadIdx.x & 31U) == 0) *slot(0, group) = total;
    }

    // Sums over time, complete: of a block of Warps warps whose lanes hold rows and segments as in linear_chunked.
    template <int Warps>
    __device__ __forceinline__ void write_block(int64_t group, int64_t time_slot, int log2_rows) const {
        __shared__ GateWide warp_sums[Warps][Shape::max_rows];
        const int lane_id = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) / 32;
        const int segments = 32 >> log2_rows;
        const int row_pack = Shape::TimeInner ? lane_id / segments : lane_id & ((1 << log2_rows) - 1);
        const bool first_segment = Shape::TimeInner ? lane_id % segments == 0 : lane_id < 1 << log2_rows;
        for (int v = 0; v < V; ++v) {
            const GateWide over_segments =
                Shape::TimeInner ? butterfly(sum[v], 1, segments) : butterfly(sum[v], 1 << log2_rows, 32);
            if (first_segment) warp_sums[warp][row_pack * V + v] = over_segments;
        }
        __syncthreads();
        const int rows = V << log2_rows;
        const int64_t row0 = lane.row - row_pack * V;
        for (int row = static_cast<int>(threadIdx.x); row < rows; row += 32 * Warps)
            for (int w = 1; w < Warps; ++w) warp_sums[0][row] = warp_sums[0][row] + warp_sums[w][row];
        __syncthreads();
        if (!p.sum_rows) {
            for (int row = static_cast<int>(threadIdx.x); row < rows; row += 32 * Warps)
                if (row0 + row < p.rows) *slot(time_slot, row0 + row) = warp_sums[0][row];
        } else if (threadIdx.x == 0) {
            GateWide total = warp_sums[0][0];
            for (int row = 1; row < rows; ++row) total = total + warp_sums[0][row];
            *slot(time_slot, group) = total;
        }
    }
};

template <typename G>
__global__ void __launch_bounds__(256) reduce_gate_gradient(const __grid_constant__ ReduceParams p) {
    using GateWide = typename Element<G>::Wide;
    constexpr int threads_per_sum = 32;
    const int64_t out_batches = p.sum_batch ? 1 : p.batches;
    const int64_t out_times = p.sum_time ? 1 : p.slots_time, out_rows = p.sum_rows ? 1 : p.slots_rows;
    const int64_t sum_times = p.sum_time ? p.slots_time : 1, sum_rows = p.sum_rows ? p.slots_rows : 1;
    const int64_t terms = (p.sum_batch ? p.batches : 1) * sum_times * sum_rows;
    // Few terms: a thread a sum, neighbours side by side in memory. Many: a warp a sum, and a tree over its lanes.
    const int width = terms >= 4 * threads_per_sum ? threads_per_sum : 1;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x / width;
    const int part = static_cast<int>(thread % width);
    const int64_t end = end_of_steps(p.offsets, p.time_offset + p.slots_time);
    for (int64_t out = thread / width; out < out_batches * out_times * out_rows; out += stride) {
        const int64_t row = out % out_rows, time = out / out_rows % out_times, batch = out / out_rows / out_times;
        if (!p.sum_time && time + p.time_offset >= end) continue;
        GateWide sum{};
        for (int64_t term = part; term < terms; term += width) {
            const int64_t r = term % sum_rows + row, t = term / sum_rows % sum_times + time;
            const int64_t b = term / sum_rows / sum_times + batch;
            sum = sum + static_cast<const GateWide*>(p.partial)[(b * p.slots_stride + t) * p.slots_rows + r];
        }
        for (int distance = width / 2; distance > 0; distance /= 2)
            sum = sum + shuffle(sum, static_cast<int>(threadIdx.x & 31U) ^ distance);
        if (part != 0) continue;
        char* to = p.grad_gate.data + batch * p.grad_gate.batch + row * p.grad_gate.row +
                   (time + p.time_offset) * p.grad_gate.time;
        *reinterpret_cast<G*>(to) = Element<G>::narrow(sum);
    }
}

// The state of sequences without steps.
template <typename Wide>
__global__ void __launch_bounds__(256) pass_empty_sequences(const __grid_constant__ EmptyParams p) {
    for (int64_t n = blockIdx.x; n < p.offsets.sequences; n += gridDim.x) {
        if (load_offset(p.offsets, n) != load_offset(p.offsets, n + 1)) continue;
        for (int64_t c = threadIdx.x; c < p.channels; c += blockDim.x) {
            const int64_t index = n * p.channels + c;
            static_cast<Wide*>(p.carry_out)[index] =
                p.carry_in != nullptr ? static_cast<const Wide*>(p.carry_in)[index] : Wide{};
        }
    }
}

}  // namespace flashscan::cuda
