// SPDX-License-Identifier: Apache-2.0
// The kernel for selective scans over few steps, as in decoding, step by step (the equations are in forward.cuh).
//
// Ownership  `Lanes` neighbouring lanes own the states of a channel of some rows, `States` of them each, load those of
//            all of these rows, and then walk the steps of one row after the other with its states in registers.
// Bytes      Every state is read once and written once where it lies, which may be a row of a pool: 8 N bytes for each
//            channel and row in f32, which is most of what moves.
// Sync       The lanes of a channel add their products by shuffles; no block waits for another.
// Limits     Up to Lanes x States states. It is slow for long rows: the loads of a step wait for the step before the
//            last one.
#pragma once

#include "cuda/device/tile/step_rows.cuh"
#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

// A lane reads and writes this part of its channel.
template <typename X, typename V, int Lanes, int States>
struct SelectiveLanes {
    using R = typename Element<X>::Wide;
    using Stored = std::conditional_t<std::is_same_v<V, R>, X, V>;  // the type of B and C of a step in memory
    using Numbers = LaneNumbers<V, States>;
    static constexpr int width = States * static_cast<int>(sizeof(Stored));
    struct alignas(width < 16 ? width : 16) Step {
        Stored of[States];
    };
    // What is loaded of a step.
    struct Loaded {
        X input, delta, gate;
        Step b, c;
        bool reset;
    };
    const SelectiveParams& p;
    const SelectiveStepParams& s;
    int64_t channel, group;
    int first_state, lane;

    // Whether the lane's number `n` exists.
    __device__ __forceinline__ bool has(int n) const { return first_state + n < p.states; }
    // Loads the lane's numbers of the channel from an array [channels][states], and stores them.
    __device__ __forceinline__ Numbers load_states(const void* data) const {
        Numbers numbers{};
        const V* from = static_cast<const V*>(data) + channel * p.states + first_state;
        if (s.whole) return *reinterpret_cast<const Numbers*>(from);
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) numbers.of[n] = from[n];
        return numbers;
    }
    __device__ __forceinline__ void store_states(void* data, const Numbers& numbers) const {
        V* to = static_cast<V*>(data) + channel * p.states + first_state;
        if (s.whole) {
            *reinterpret_cast<Numbers*>(to) = numbers;
            return;
        }
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) to[n] = numbers.of[n];
    }
    // Loads the lane's numbers of B or C at a step.
    __device__ __forceinline__ Step load_step(const View& view, int64_t batch, int64_t time) const {
        Step step{};
        const char* from = view.data + batch * view.batch + time * view.time;
        const int64_t place = group * p.states + first_state;
        if (s.whole) return *reinterpret_cast<const Step*>(from + place * static_cast<int64_t>(sizeof(Stored)));
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) step.of[n] = *reinterpret_cast<const Stored*>(from + (place + n) * view.row);
        return step;
    }
    __device__ __forceinline__ Numbers numbers_of(const void* constant, const Step& step) const {
        if (constant != nullptr) return load_states(constant);
        Numbers numbers;
#pragma unroll
        for (int n = 0; n < States; ++n) numbers.of[n] = Element<Stored>::widen(step.of[n]);
        return numbers;
    }
    __device__ __forceinline__ X* at(const View& view, int64_t batch, int64_t time) const {
        return reinterpret_cast<X*>(view.data + batch * view.batch + channel * view.row + time * view.time);
    }
    __device__ __forceinline__ Loaded load(int64_t batch, int64_t time) const {
        Loaded step;
        if (p.b.data != nullptr) step.b = load_step(p.b, batch, time);
        if (p.c.data != nullptr) step.c = load_step(p.c, batch, time);
        step.input = *at(p.input, batch, time);
        step.delta = *at(p.delta, batch, time);
        if (p.gate.data != nullptr) step.gate = *at(p.gate, batch, time);
        step.reset = p.reset != nullptr && p.reset[batch * p.time + time] != 0;
        return step;
    }
    __device__ __forceinline__ R parameter(const void* data) const {
        return data != nullptr ? static_cast<const R*>(data)[channel] : R(0);
    }

    // Takes a step: h becomes the states after it. Returns the output.
    __device__ __forceinline__ R take(const Loaded& step, const Numbers& rates, R bias, R d, Numbers& h) const {
        constexpr R factor = std::is_same_v<V, R> ? R(1) : R(2);
        if (step.reset) h = {};
        const R input = Element<X>::widen(step.input);
        R delta = Element<X>::widen(step.delta) + bias;
        if (p.softplus) delta = softplus(delta);
        const Numbers b = numbers_of(p.constant_b, step.b), c = numbers_of(p.constant_c, step.c);
        R sum[1] = {R(0)};
#pragma unroll
        for (int n = 0; n < States; ++n) {
            h.of[n] = multiply_add(selective_decay(delta, rates.of[n]), h.of[n], (delta * input) * b.of[n]);
            sum[0] = add_real_product(c.of[n], h.of[n], sum[0]);
        }
        R y = factor * sum_over_lanes<Lanes>(sum, lane) + d * input;
        if (p.gate.data != nullptr) {
            const R z = Element<X>::widen(step.gate);
            y = y * (z * sigmoids(z).open);
        }
        return y;
    }
};

// One of the rows of a thread: the row of the states in memory, -1 for padding, and its steps.
struct SelectiveStepRow {
    int64_t state, batch, begin, steps;

    static __device__ __forceinline__ SelectiveStepRow at(const SelectiveParams& p, const SelectiveStepParams& s,
                                                          int64_t row) {
        if (row >= s.rows) return {-1, 0, 0, 0};
        SelectiveStepRow found{indexed_row(s.states.indices, row, s.states.pool_rows), row, 0, p.time};
        if (p.offsets.data != nullptr) {
            found.batch = 0;
            found.begin = load_offset(p.offsets, row);
            found.steps = max(load_offset(p.offsets, row + 1) - found.begin, int64_t{0});
        }
        return found;
    }
    __device__ __forceinline__ int64_t time_of(int64_t step, bool down) const {
        return begin + (down ? steps - 1 - step : step);
    }
};

template <typename X, typename V, int Lanes, int States>
__global__ void __launch_bounds__(selective_step_threads)
    selective_steps(const __grid_constant__ SelectiveParams p, const __grid_constant__ SelectiveStepParams s) {
    using R = typename Element<X>::Wide;
    using Own = SelectiveLanes<X, V, Lanes, States>;
    constexpr int Rows = selective_step_rows;
    const uint32_t slices = static_cast<uint32_t>(p.slices), block_row = blockIdx.x / slices;
    Own own{p, s, 0, 0, static_cast<int>(threadIdx.x) % Lanes * States, static_cast<int>(threadIdx.x) % Lanes};
    own.channel = (static_cast<int64_t>(blockIdx.x - block_row * slices) * blockDim.x + threadIdx.x) / Lanes;
    const bool there = own.channel < p.channels;
    // Lanes without a channel do the work of the last one, so that all lanes take part in shuffles, and store nothing.
    own.channel = min(own.channel, p.channels - 1);
    own.group = p.groups == 1 ? 0 : own.channel / p.group_channels;

    SelectiveStepRow rows[Rows];
    typename Own::Loaded first[Rows];
    typename Own::Numbers states[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) rows[r] = SelectiveStepRow::at(p, s, static_cast<int64_t>(block_row) * Rows + r);
#pragma unroll
    for (int r = 0; r < Rows; ++r)
        if (rows[r].steps > 0) first[r] = own.load(rows[r].batch, rows[r].time_of(0, p.down));
    auto rates = own.load_states(p.a);
    const R bias = own.parameter(p.bias), d = own.parameter(p.d);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        states[r] = {};
        if (rows[r].state >= 0 && s.states.in != nullptr)
            states[r] = own.load_states(s.states.in + rows[r].state * s.states.in_step);
    }
#pragma unroll
    for (int n = 0; n < States; ++n) rates.of[n] = selective_rate(rates.of[n]);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        const SelectiveStepRow& row = rows[r];
        typename Own::Loaded now = first[r], next;
        for (int64_t step = 0; step < row.steps; ++step) {
            if (step + 1 < row.steps) next = own.load(row.batch, row.time_of(step + 1, p.down));
            const R y = own.take(now, rates, bias, d, states[r]);
            if (own.lane == 0 && there)
                *own.at(p.output, row.batch, row.time_of(step, p.down)) = Element<X>::narrow(row.state < 0 ? R(0) : y);
            now = next;
        }
        if (row.state >= 0 && s.states.out != nullptr && there)
            own.store_states(s.states.out + row.state * s.states.out_step, states[r]);
    }
}

}  // namespace flashscan::cuda
