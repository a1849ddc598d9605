// SPDX-License-Identifier: Apache-2.0
// The kernel for selective scans over few steps, as in decoding, step by step (the equations are in forward.cuh).
//
// Ownership  `Lanes` neighbouring lanes own the states of a channel of one row, `States` of them each, and walk the
//            row's steps with these in registers.
// Bytes      Every state is read once and written once, 8 N bytes for each channel and row in f32, which is most of
//            what moves.
// Sync       The lanes of a channel add their products by shuffles; no block waits for another.
// Limits     Up to Lanes x States states. It is slow for long rows, since the loads of a step wait for the step before.
#pragma once

#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

// A lane reads and writes this part of its channel.
template <typename X, typename V, int Lanes, int States>
struct SelectiveLanes {
    using R = typename Element<X>::Wide;
    using Stored = std::conditional_t<std::is_same_v<V, R>, X, V>;  // the type of B and C of a step in memory
    using Numbers = LaneNumbers<V, States>;
    const SelectiveParams& p;
    int64_t row, batch, channel, group;
    int lane;
    bool there;  // whether the channel exists

    __device__ __forceinline__ int first_state() const { return lane * States; }
    // Whether the lane's numbers from `from` on all exist and are aligned to 16 bytes.
    __device__ __forceinline__ bool is_whole(const void* from) const {
        return first_state() + States <= p.states && reinterpret_cast<uintptr_t>(from) % 16 == 0;
    }
    // Loads the lane's numbers of an array [rows][channels][states].
    __device__ __forceinline__ Numbers load_states(const void* data, int64_t of_row) const {
        Numbers numbers{};
        if (data == nullptr || !there) return numbers;
        const V* from = static_cast<const V*>(data) + (of_row * p.channels + channel) * p.states + first_state();
        if (is_whole(from)) return *reinterpret_cast<const Numbers*>(from);
#pragma unroll
        for (int s = 0; s < States; ++s)
            if (first_state() + s < p.states) numbers.of[s] = from[s];
        return numbers;
    }
    __device__ __forceinline__ void store_states(void* data, const Numbers& numbers) const {
        if (data == nullptr || !there) return;
        V* to = static_cast<V*>(data) + (row * p.channels + channel) * p.states + first_state();
        if (is_whole(to)) {
            *reinterpret_cast<Numbers*>(to) = numbers;
            return;
        }
#pragma unroll
        for (int s = 0; s < States; ++s)
            if (first_state() + s < p.states) to[s] = numbers.of[s];
    }
    // Loads the lane's numbers of B or C at a step.
    __device__ __forceinline__ Numbers load_step(const View& view, const void* constant, int64_t time) const {
        if (constant != nullptr) return load_states(constant, 0);
        Numbers numbers{};
        const char* from = view.data + batch * view.batch + time * view.time;
#pragma unroll
        for (int s = 0; s < States; ++s)
            if (there && first_state() + s < p.states)
                numbers.of[s] = Element<Stored>::widen(
                    *reinterpret_cast<const Stored*>(from + (group * p.states + first_state() + s) * view.row));
        return numbers;
    }
    __device__ __forceinline__ X* at(const View& view, int64_t time) const {
        return reinterpret_cast<X*>(view.data + batch * view.batch + channel * view.row + time * view.time);
    }
    __device__ __forceinline__ R load(const View& view, int64_t time) const {
        return there ? Element<X>::widen(*at(view, time)) : R(0);
    }
    __device__ __forceinline__ R parameter(const void* data) const {
        return there && data != nullptr ? static_cast<const R*>(data)[channel] : R(0);
    }
};

template <typename X, typename V, int Lanes, int States>
__global__ void __launch_bounds__(selective_step_threads) selective_steps(const __grid_constant__ SelectiveParams p) {
    using R = typename Element<X>::Wide;
    using Own = SelectiveLanes<X, V, Lanes, States>;
    constexpr int block_channels = selective_step_threads / Lanes;
    constexpr R factor = std::is_same_v<V, R> ? R(1) : R(2);
    const uint32_t slices = static_cast<uint32_t>(p.slices), row = blockIdx.x / slices;
    Own own{p, row, p.offsets.data == nullptr ? row : 0, 0, 0, static_cast<int>(threadIdx.x) % Lanes, false};
    own.channel = static_cast<int64_t>(blockIdx.x - row * slices) * block_channels + threadIdx.x / Lanes;
    own.there = own.channel < p.channels;
    own.group = p.groups == 1 ? 0 : own.channel / p.group_channels;
    int64_t begin = 0, end = p.time;
    if (p.offsets.data != nullptr) {
        begin = load_offset(p.offsets, row);
        end = max(load_offset(p.offsets, row + 1), begin);
    }
    auto h = own.load_states(p.state_in, row), rates = own.load_states(p.a, 0);
#pragma unroll
    for (int s = 0; s < States; ++s) rates.of[s] = selective_rate(rates.of[s]);
    const R bias = own.parameter(p.bias), d = own.parameter(p.d);
    for (int64_t step = begin; step < end; ++step) {
        const int64_t time = p.down ? begin + end - 1 - step : step;
        if (p.reset != nullptr && p.reset[own.batch * p.time + time] != 0) h = {};
        const R input = own.load(p.input, time);
        R delta = own.load(p.delta, time) + bias;
        if (p.softplus) delta = softplus(delta);
        const auto b = own.load_step(p.b, p.constant_b, time), c = own.load_step(p.c, p.constant_c, time);
        R sum[1] = {R(0)};
#pragma unroll
        for (int s = 0; s < States; ++s) {
            h.of[s] = multiply_add(selective_decay(delta, rates.of[s]), h.of[s], (delta * input) * b.of[s]);
            sum[0] = add_real_product(c.of[s], h.of[s], sum[0]);
        }
        R y = factor * sum_over_lanes<Lanes>(sum, own.lane) + d * input;
        if (p.gate.data != nullptr) {
            const R z = own.load(p.gate, time);
            y = y * (z * sigmoids(z).open);
        }
        if (own.lane == 0 && own.there) *own.at(p.output, time) = Element<X>::narrow(y);
    }
    own.store_states(p.state_out, h);
}

}  // namespace flashscan::cuda
