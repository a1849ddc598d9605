// SPDX-License-Identifier: Apache-2.0
// Which row, segment, channels and states a block and a thread of a selective scan have, and where these lie in memory.
#pragma once

#include "cuda/device/math/decay.cuh"
#include "cuda/device/scan/lane_sums.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/selective/params.h"
#include "cuda/selective/shape.cuh"

namespace flashscan::cuda {

// The threads between lanes that are `offset` apart, a power of two, if a warp has `Channels` channels in the order of
// SelectiveShape.
template <int Channels>
__device__ __forceinline__ constexpr int lane_distance(int offset) {
    return Channels > 1 && offset == 1 ? 2 : offset * Channels;
}
// Sums over the lanes of a channel (device/scan/lane_sums.cuh).
template <typename Shape, int K, typename R>
__device__ __forceinline__ R sum_over_states(R (&values)[K], int lane) {
    return sum_over_lanes<Shape::lanes>(values, lane,
                                        [](int offset) { return lane_distance<Shape::warp_channels>(offset); });
}

// A block: a segment of the steps of one row of the states, for neighbouring channels of one group.
template <typename Shape>
struct SelectiveBlock {
    using X = typename Shape::X;
    using V = typename Shape::V;
    using R = typename Shape::R;
    using Numbers = LaneNumbers<V, Shape::states>;
    static constexpr int threads = Shape::threads;
    static constexpr bool by_time = Shape::by_time;
    static constexpr bool many = Shape::warp_channels > 1;  // whether warps have several channels

    const SelectiveParams& p;
    int64_t row, batch, begin, length;  // the row, its batch entry, its first step in memory, and how many it has
    int64_t first, end;                 // the segment's steps, counted in the order of the walk
    int64_t part;                       // the segment's number among those of all rows
    int64_t channel0;                   // the block's first channel
    int32_t channels;                   // how many channels it has
    int32_t group, slice;

    // The block of this thread. The walk `adjoint` counts steps from the last one.
    static __device__ __forceinline__ SelectiveBlock here(const SelectiveParams& p, bool adjoint) {
        SelectiveBlock block{p, 0, 0, 0, p.time, 0, p.time, 0, 0, 0, 0, 0};
        const int64_t columns = static_cast<int64_t>(p.groups) * p.slices, column = blockIdx.x % columns;
        block.part = blockIdx.x / columns;
        block.row = block.batch = block.part / p.segments;
        block.group = static_cast<int32_t>(column / p.slices);
        block.slice = static_cast<int32_t>(column % p.slices);
        const int64_t inside = static_cast<int64_t>(block.slice) * Shape::channels;
        block.channel0 = block.group * p.group_channels + inside;
        block.channels = static_cast<int32_t>(min(static_cast<int64_t>(Shape::channels), p.group_channels - inside));
        if (p.offsets.data != nullptr) {
            block.batch = 0;
            block.begin = load_offset(p.offsets, block.row);
            block.end = block.length = max(load_offset(p.offsets, block.row + 1) - block.begin, int64_t{0});
        } else if (p.segments > 1) {
            const int64_t from = (block.part - block.row * p.segments) * p.segment_steps;
            const int64_t to = min(from + p.segment_steps, p.time);
            block.first = adjoint ? p.time - to : from;
            block.end = adjoint ? p.time - from : to;
        }
        return block;
    }

    __device__ __forceinline__ bool is_first() const { return first == 0; }
    __device__ __forceinline__ bool is_last() const { return end == length; }
    __device__ __forceinline__ int64_t time_of(int64_t step) const {
        return begin + (p.down ? length - 1 - step : step);
    }
    // How many steps exist of a tile of `Steps` steps from `step` on.
    template <int Steps>
    __device__ __forceinline__ int valid_of(int64_t step) const {
        return static_cast<int>(min(static_cast<int64_t>(Steps), end - step));
    }
    // The thread's number among the lanes of its channel, and the channel's among those of the block.
    __device__ __forceinline__ int lane() const {
        const int thread = static_cast<int>(threadIdx.x) % 32;
        return many ? thread / 2 % 2 + thread / (2 * Shape::warp_channels) * 2 : thread;
    }
    __device__ __forceinline__ int local_channel() const {
        const int warp = static_cast<int>(threadIdx.x) / 32, thread = static_cast<int>(threadIdx.x) % 32;
        if constexpr (many)
            return warp * Shape::warp_channels + thread % 2 + thread / 4 % (Shape::warp_channels / 2) * 2;
        else
            return warp;
    }
    __device__ __forceinline__ bool has_channel() const { return local_channel() < channels; }
    __device__ __forceinline__ int64_t channel() const { return channel0 + local_channel(); }
    __device__ __forceinline__ int first_state() const { return lane() * Shape::states; }

    __device__ __forceinline__ R param(const void* data, int c) const {
        return data == nullptr ? R(0) : static_cast<const R*>(data)[channel0 + c];
    }
    // The offset of the thread's first element of the tile that begins with `step`, in a tensor whose rows begin with
    // `row`; the bytes from one of the thread's elements to the next; and those from one step of the walk to the next.
    template <typename Places>
    __device__ __forceinline__ int64_t offset_of(const Places& places, const View& view, int64_t row,
                                                 int64_t step) const {
        return batch * view.batch + (row + places.column) * view.row + time_of(step + places.step) * view.time;
    }
    template <typename Places>
    __device__ __forceinline__ int64_t turn_of(const View& view) const {
        return Shape::by_time ? Places::rows_of_turn * view.row : Places::steps_of_turn * step_of(view);
    }
    __device__ __forceinline__ int64_t step_of(const View& view) const { return p.down ? -view.time : view.time; }

    // Load and store the lane's numbers of an array [rows][channels][states].
    __device__ __forceinline__ Numbers load_states(const void* data, int64_t of_row) const {
        Numbers numbers{};
        if (data == nullptr || !has_channel()) return numbers;
        const V* from = static_cast<const V*>(data) + (of_row * p.channels + channel()) * p.states + first_state();
#pragma unroll
        for (int s = 0; s < Shape::states; ++s)
            if (first_state() + s < p.states) numbers.of[s] = from[s];
        return numbers;
    }
    __device__ __forceinline__ void store_states(void* data, int64_t of_row, const Numbers& numbers) const {
        if (data == nullptr || !has_channel()) return;
        V* to = static_cast<V*>(data) + (of_row * p.channels + channel()) * p.states + first_state();
#pragma unroll
        for (int s = 0; s < Shape::states; ++s)
            if (first_state() + s < p.states) to[s] = numbers.of[s];
    }
    __device__ __forceinline__ Numbers rates() const {
        Numbers rates = load_states(p.a, 0);
#pragma unroll
        for (int s = 0; s < Shape::states; ++s) rates.of[s] = decay_rate(rates.of[s]);
        return rates;
    }

    // The checkpoint before `step`: its number, where its states are (padded to whole lanes), and where its sum of d
    // is.
    __device__ __forceinline__ int64_t kept_chunk(int64_t step) const {
        const int64_t before = p.offsets.data == nullptr ? row * p.kept_chunks : begin / Shape::kept_steps + row;
        return before + step / Shape::kept_steps;
    }
    __device__ __forceinline__ Numbers* kept_states(int64_t step) const {
        return static_cast<Numbers*>(p.kept) + kept_chunk(step) * p.kept_lanes + lane() * p.channels + channel();
    }
    __device__ __forceinline__ R* kept_delta(int64_t step) const {
        return static_cast<R*>(p.kept_deltas) + kept_chunk(step) * p.channels + channel();
    }
    __device__ __forceinline__ bool keeps() const { return has_channel() && first_state() < p.states; }

    // Whether whole tiles have no special cases.
    __device__ __forceinline__ bool is_plain() const {
        return p.alike && p.reset == nullptr && p.constant_b == nullptr && p.constant_c == nullptr &&
               channels == Shape::channels;
    }

    // Puts what does not change from step to step into shared memory. All threads call it before the first tile.
    template <typename Matrices>
    __device__ __forceinline__ void stage_constants(Matrices& m) const {
        for (int c = static_cast<int>(threadIdx.x); c < channels; c += Shape::threads) {
            m.bias[c] = param(p.bias, c);
            m.d[c] = param(p.d, c);
        }
        const auto stage = [&](const void* data, V* rows) {
            if (data == nullptr) return;
            const Numbers numbers = load_states(data, 0);
            reinterpret_cast<Numbers&>(rows[local_channel() * Shape::matrix_pitch + first_state()]) = numbers;
        };
        stage(p.constant_b, m.b);
        stage(p.constant_c, m.c);
    }
    // Puts the resets of the steps from `step` on, of which `valid` exist, into shared memory.
    template <typename Matrices>
    __device__ __forceinline__ void stage_resets(Matrices& m, int64_t step, int valid) const {
        if (p.reset == nullptr) return;
        for (int t = static_cast<int>(threadIdx.x); t < valid; t += Shape::threads)
            m.resets[t] = p.reset[batch * p.time + time_of(step + t)];
    }
    // A lane's numbers of B or C at a step of the tile.
    template <bool Plain>
    __device__ __forceinline__ const Numbers& numbers_at(const V* rows, const void* constant, int t) const {
        const int line = Plain || constant == nullptr ? t : local_channel();
        return reinterpret_cast<const Numbers&>(rows[line * Shape::matrix_pitch + first_state()]);
    }
};

}  // namespace flashscan::cuda
