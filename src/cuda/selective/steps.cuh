// SPDX-License-Identifier: Apache-2.0
// The kernel for selective scans over few steps, as in decoding, step by step (the equations are in forward.cuh).
//
// Ownership  `Lanes` neighbouring lanes own the states of a channel of some rows, `States` of them each, load those of
//            all of these rows, and then walk the steps of one row after the other with its states in registers.
// Bytes      Every state is read once and written once where it lies, which may be a row of a pool: 8 N bytes for each
//            channel and row in f32, which is most of what moves.
// Sync       The lanes of a channel add their products by shuffles; no block waits for another.
// Limits     Up to Lanes x States states. It is slow for long rows, since the loads of a step wait for the step before.
#pragma once

#include "cuda/device/tile/step_rows.cuh"
#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

// A lane reads and writes this part of its channel.
template <typename X, typename V, int Lanes, int States>
struct SelectiveLanes {
    using R = typename Element<X>::Wide;
    using Stored = std::conditional_t<std::is_same_v<V, R>, X, V>;  // the type of B and C of a step in memory
    using Numbers = Pack<V, States>;
    using Step = Pack<Stored, States>;
    // The values that are loaded for a step.
    struct Loaded {
        X input, delta, gate;
        Step b, c;
        uint8_t reset;
    };
    const SelectiveParams& p;
    const SelectiveStepParams& s;
    uint32_t channel, group;
    int lane;

    __device__ __forceinline__ int first_state() const { return lane * States; }
    // Whether the lane's number `n` exists.
    __device__ __forceinline__ bool has(int n) const { return first_state() + n < p.states; }
    // Loads the lane's numbers of the channel from an array [channels][states], and stores them.
    __device__ __forceinline__ Numbers load_states(const void* data) const {
        const auto* from = static_cast<const char*>(data) + place_of(channel);
        return load_pack<V>(from, sizeof(V));
    }
    __device__ __forceinline__ void store_states(void* data, const Numbers& numbers) const {
        char* to = static_cast<char*>(data) + place_of(channel);
        if (s.whole) {
            *reinterpret_cast<Numbers*>(to) = numbers;
            return;
        }
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) numbers.store_one(n, to + n * sizeof(V));
    }
    __device__ __forceinline__ int64_t place_of(uint32_t of_channel) const {
        return (int64_t{of_channel} * p.states + first_state()) * static_cast<int64_t>(sizeof(V));
    }
    // Loads numbers that lie `step` bytes apart.
    template <typename T>
    __device__ __forceinline__ Pack<T, States> load_pack(const char* from, int64_t step) const {
        if (s.whole) return *reinterpret_cast<const Pack<T, States>*>(from);
        Pack<T, States> pack = {};
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) pack.load_one(n, from + n * step);
        return pack;
    }
    // Loads the lane's numbers of B or C at a step.
    __device__ __forceinline__ Step load_step(const View& view, uint32_t batch, uint32_t time) const {
        const uint32_t place = group * static_cast<uint32_t>(p.states) + first_state();
        const char* from = view.data + batch * view.batch + time * view.time;
        return load_pack<Stored>(from + place * (s.whole ? static_cast<int64_t>(sizeof(Stored)) : view.row), view.row);
    }
    // B or C of the channel.
    __device__ __forceinline__ void look_up(const void* constant, const Step& step, V (&numbers)[States]) const {
        if (constant != nullptr)
            widen(load_states(constant), numbers);
        else
            widen(step, numbers);
    }
    __device__ __forceinline__ X* at(const View& view, uint32_t batch, uint32_t time) const {
        return reinterpret_cast<X*>(view.data + batch * view.batch + channel * view.row + time * view.time);
    }
    __device__ __forceinline__ Loaded load(const StepSpan& span, uint32_t nth) const {
        const uint32_t batch = span.batch, time = span.time_of(nth, p.down);
        Loaded step;
        if (p.b.data != nullptr) step.b = load_step(p.b, batch, time);
        if (p.c.data != nullptr) step.c = load_step(p.c, batch, time);
        step.input = *at(p.input, batch, time);
        step.delta = *at(p.delta, batch, time);
        if (p.gate.data != nullptr) step.gate = *at(p.gate, batch, time);
        step.reset = span.reset_at(p.reset, p.time, time);
        return step;
    }
    __device__ __forceinline__ R parameter(const void* data) const {
        return data != nullptr ? static_cast<const R*>(data)[channel] : R(0);
    }

    // Takes a step: h becomes the states after it. Returns the output.
    __device__ __forceinline__ R take(const Loaded& step, const Numbers& rates, R bias, R d, Numbers& h) const {
        constexpr R factor = std::is_same_v<V, R> ? R(1) : R(2);
        if (step.reset != 0) h = {};
        const R input = Element<X>::widen(step.input);
        R delta = Element<X>::widen(step.delta) + bias;
        if (p.softplus) delta = softplus(delta);
        V b[States], c[States];
        look_up(p.constant_b, step.b, b);
        look_up(p.constant_c, step.c, c);
        R sum[1] = {R(0)};
#pragma unroll
        for (int n = 0; n < States; ++n) {
            h.part[n] = multiply_add(selective_decay(delta, rates.part[n]), h.part[n], (delta * input) * b[n]);
            sum[0] = add_real_product(c[n], h.part[n], sum[0]);
        }
        R y = factor * sum_over_lanes<Lanes>(sum, lane) + d * input;
        if (p.gate.data != nullptr) {
            const R z = Element<X>::widen(step.gate);
            y = y * (z * sigmoids(z).open);
        }
        return y;
    }
};

// Rows of a thread: two, whose loads are under way together, unless their states take too many registers.
template <typename V, int States>
constexpr int selective_step_rows = States * sizeof(V) > 32 ? 1 : 2;
// Blocks per multiprocessor, for which __launch_bounds__ limits the registers.
template <typename X, typename V, int States>
constexpr int selective_step_blocks = !std::is_same_v<V, float> || States > 4 ? 1
                                      : sizeof(X) == 2                        ? 4
                                                                              : 3;

template <typename X, typename V, int Lanes, int States>
__global__ void __launch_bounds__(selective_step_threads, selective_step_blocks<X, V, States>)
    selective_steps(const __grid_constant__ SelectiveParams p, const __grid_constant__ SelectiveStepParams s) {
    using R = typename Element<X>::Wide;
    using Own = SelectiveLanes<X, V, Lanes, States>;
    constexpr int Rows = selective_step_rows<V, States>;
    const uint32_t block_row = quotient(blockIdx.x, s.by_slices), slice = blockIdx.x - block_row * p.slices;
    Own own{p, s, (slice * blockDim.x + threadIdx.x) / Lanes, 0, static_cast<int>(threadIdx.x) % Lanes};
    // Lanes without a channel do the work of the last one, so that all lanes take part in shuffles, and store nothing.
    const uint32_t last = static_cast<uint32_t>(p.channels) - 1;
    const bool there = own.channel <= last;
    own.channel = min(own.channel, last);
    own.group = quotient(own.channel, s.by_group_channels);

    StepSpan spans[Rows];
    int32_t indices[Rows];
    int64_t places[Rows];  // rows of the states in memory; -1 for padding
    typename Own::Loaded steps[Rows];
    typename Own::Numbers states[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        const uint32_t row = block_row * Rows + r;
        indices[r] = row < s.rows ? index_of(s.states, row) : -1;
        spans[r] = row < s.rows ? StepSpan::of(p.offsets, p.time, row) : StepSpan{};
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r)
        if (spans[r].steps > 0) steps[r] = own.load(spans[r], 0);
    auto rates = own.load_states(p.a);
    const R bias = own.parameter(p.bias), d = own.parameter(p.d);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        places[r] = row_of_pool(indices[r], s.states.rows);
        states[r] = {};
        if (places[r] >= 0 && s.states.in != nullptr)
            states[r] = own.load_states(s.states.in + places[r] * s.states.in_step);
    }
#pragma unroll
    for (int n = 0; n < States; ++n) rates.part[n] = selective_rate(rates.part[n]);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        const StepSpan& span = spans[r];
        for (uint32_t step = 0; step < span.steps; ++step) {
            const R y = own.take(steps[r], rates, bias, d, states[r]);
            if (own.lane == 0 && there)
                *own.at(p.output, span.batch, span.time_of(step, p.down)) =
                    Element<X>::narrow(places[r] < 0 ? R(0) : y);
            if (step + 1 < span.steps) steps[r] = own.load(span, step + 1);
        }
        if (places[r] >= 0 && s.states.out != nullptr && there)
            own.store_states(s.states.out + places[r] * s.states.out_step, states[r]);
    }
}

}  // namespace flashscan::cuda
