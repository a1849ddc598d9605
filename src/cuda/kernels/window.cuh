// SPDX-License-Identifier: Apache-2.0
// Which part of each tensor lies under a tile.
#pragma once

#include "cuda/kernels/walk.cuh"

namespace flashscan::cuda {

// Backward reads h one step before each step. Channel innermost, the tile of h is loaded with that shift; time
// innermost it is loaded as it lies and the one value beyond its edge comes from memory.
template <typename Shape, bool Backward, bool Down>
constexpr int before_shift = Backward && !Shape::TimeInner ? (Down ? -1 : 1) : 0;

// The step of an unpacked row whose gate's gradient needs STATE_IN: its first in the order of computation.
template <bool Backward, bool Down>
__device__ __forceinline__ int64_t first_step(const LinearParams& p) {
    const bool marked = Backward && p.states.data != nullptr && p.state_in != nullptr && p.offsets.data == nullptr;
    return marked ? (Down ? 0 : p.time - 1) : -1;
}

template <bool Backward>
__device__ __forceinline__ bool has_events(const LinearParams& p) {
    return p.reset != nullptr || p.offsets.data != nullptr ||
           (Backward && p.states.data != nullptr && p.state_in != nullptr);
}

// The window over the steps [t0, t0 + span) of a tile whose first row is `row`, its steps moved by `shift`.
template <typename Shape>
__device__ __forceinline__ Window window_of(const LinearParams& p, int64_t batch, int64_t row, int64_t t0, int64_t end,
                                            int span, int shift = 0) {
    Window w;
    w.rows = static_cast<int>(min(p.rows - row, int64_t{64}));
    w.first = t0 + shift < 0 ? 1 : 0;
    w.last = static_cast<int>(max(min(min(end, p.time - shift) - t0, static_cast<int64_t>(span)), int64_t{0}));
    w.batch = batch;
    w.row = row;
    w.t0 = t0 + shift;
    w.whole = t0 + span <= end || (!Shape::TimeInner && end == p.time);
    return w;
}

// h beyond the end of the lane's walk, where it lies in the tensor.
template <typename X, bool Down>
__device__ __forceinline__ typename Element<X>::Wide load_edge(const LinearParams& p, const Lane& lane) {
    const int64_t t = Down ? lane.t0 - 1 : lane.t0 + lane.steps;
    if (p.states.data == nullptr || lane.rows <= 0 || lane.steps <= 0 || t < 0 || t >= p.time) return {};
    const char* from = p.states.data + lane.batch * p.states.batch + lane.row * p.states.row + t * p.states.time;
    return Element<X>::widen(*reinterpret_cast<const X*>(from));
}

}  // namespace flashscan::cuda
