// SPDX-License-Identifier: Apache-2.0
// The kernel "decode" of selective scans, selective_decode: few steps, one after another (forward.cuh has the
// equations).
//
// Ownership  `Lanes` neighbouring lanes own the states of a channel of some rows, `States` of each row for a lane,
//            which loads those of all of its rows before it computes. What a step has one number of for each channel
//            (d, the gate, OUTPUT) a lane computes for one of these rows.
// Bytes      Every state is read once and written once where it lies, which may be a row of a pool: 8 N bytes for each
//            channel and row in f32, which is most of what moves and bounds the kernel.
// Sync       Lanes hand d and d INPUT on, and add their products, by shuffles; no block waits for another.
// Limits     Up to Lanes x States states. It is slow for long rows, since the loads of a step wait for the step before.
//
// A call is Plain if every step has its own B and C, nothing is reset, each batch entry is one sequence, each lane has
// all of its states and loads its numbers at once, and strides have 32 bits. The code is then without these choices, in
// the same arithmetic.
#pragma once

#include "cuda/device/scan/lane_sums.cuh"
#include "cuda/device/tile/long_product.cuh"
#include "cuda/device/tile/step_rows.cuh"
#include "cuda/selective/functions.cuh"
#include "cuda/selective/params.h"

namespace flashscan::cuda {

// Rows of a thread, whose loads are under way together; one if their states take too many registers.
template <typename V, int States, bool Plain>
constexpr int selective_step_rows = Plain                     ? 4
                                    : States * sizeof(V) > 32 ? 1
                                                              : 2;

template <typename X, typename V, int Lanes, int States, bool Plain>
struct SelectiveLanes {
    using R = typename Element<X>::Wide;
    using Stored = std::conditional_t<std::is_same_v<V, R>, X, V>;  // the type of B and C of a step in memory
    using Numbers = Pack<V, States>;
    using Step = Pack<Stored, States>;
    static constexpr int Rows = selective_step_rows<V, States, Plain>;
    static constexpr int share = Lanes / Rows;  // lanes that compute for the same row
    // The values that are loaded for a step.
    struct Loaded {
        X input, delta, gate;  // of the lane's own row
        Step b[Rows], c[Rows];
        uint8_t reset[Rows];
    };

    const SelectiveParams& p;
    const SelectiveStepParams& s;
    uint32_t channel, group, own_row;
    int lane;
    bool has_channel, has_own;  // whether the channel exists, and the lane stores for the row that it computes for
    StepSpan own, spans[Rows];

    __device__ __forceinline__ SelectiveLanes(const SelectiveParams& params, const SelectiveStepParams& step_params)
        : p(params), s(step_params), lane(static_cast<int>(threadIdx.x % Lanes)) {
        const uint32_t rows_of_block = quotient(blockIdx.x, s.by_slices), slice = blockIdx.x - rows_of_block * p.slices;
        const uint32_t wanted = (slice * blockDim.x + threadIdx.x) / Lanes;
        const uint32_t last = static_cast<uint32_t>(p.channels) - 1, first_row = rows_of_block * Rows;
        const uint32_t rows = min(s.rows - first_row, uint32_t{Rows}), own_of_rows = lane / share;
        // Lanes without a channel or a row do the work of the last one, so that all lanes take part in shuffles, and
        // store nothing.
        channel = min(wanted, last);
        own_row = first_row + min(own_of_rows, rows - 1);
        has_channel = wanted <= last;
        has_own = has_channel && own_of_rows < rows && lane % share == 0;
        group = quotient(channel, s.by_group_channels);
        own = span_of(own_row);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            spans[r] = span_of(first_row + min(uint32_t(r), rows - 1));
            if (!Plain && r >= rows) spans[r].steps = 0;
        }
        index = own_of_rows < rows ? index_of(s.states, own_row) : -1;
    }
    __device__ __forceinline__ StepSpan span_of(uint32_t row) const {
        return Plain ? StepSpan{row, 0, static_cast<uint32_t>(p.time)} : StepSpan::of(p.offsets, p.time, row);
    }

    __device__ __forceinline__ bool is_whole() const { return Plain || s.whole; }
    __device__ __forceinline__ int first_state() const { return lane * States; }
    // Whether the lane's number `n` exists.
    __device__ __forceinline__ bool has(int n) const { return first_state() + n < p.states; }
    // The value of the lane that computes for row r of the thread's.
    template <typename T>
    __device__ __forceinline__ T of_row(T x, int r) const {
        return __shfl_sync(0xffffffffU, x, r * share, Lanes);
    }
    template <typename N>
    static __device__ __forceinline__ int64_t times(N n, int64_t stride) {
        if constexpr (Plain) return long_product(static_cast<int32_t>(n), stride);
        return n * stride;
    }

    // The bytes from the first number of an array [channels][states] to the lane's.
    __device__ __forceinline__ int64_t place() const {
        return (int64_t{channel} * p.states + first_state()) * static_cast<int64_t>(sizeof(V));
    }
    __device__ __forceinline__ Numbers load_states(const void* data) const {
        return load_pack<V>(static_cast<const char*>(data) + place(), sizeof(V));
    }
    __device__ __forceinline__ void store_states(char* data, const Numbers& numbers) const {
        char* const to = data + place();
        if (is_whole()) {
            *reinterpret_cast<Numbers*>(to) = numbers;
            return;
        }
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) numbers.store_one(n, to + n * sizeof(V));
    }
    // Loads numbers that lie `step` bytes apart.
    template <typename T>
    __device__ __forceinline__ Pack<T, States> load_pack(const char* from, int64_t step) const {
        if (is_whole()) return *reinterpret_cast<const Pack<T, States>*>(from);
        Pack<T, States> pack = {};
#pragma unroll
        for (int n = 0; n < States; ++n)
            if (has(n)) pack.load_one(n, from + n * step);
        return pack;
    }
    // Loads the lane's numbers of B or C at a step.
    __device__ __forceinline__ Step load_step(const View& view, uint32_t batch, uint32_t time) const {
        const uint32_t number = group * static_cast<uint32_t>(p.states) + first_state();
        const char* from = view.data + times(time, view.time) + times(batch, view.batch);
        return load_pack<Stored>(from + number * (is_whole() ? static_cast<int64_t>(sizeof(Stored)) : view.row),
                                 view.row);
    }
    // B or C of the channel.
    __device__ __forceinline__ void look_up(const void* constant, const Step& step, V (&numbers)[States]) const {
        if (!Plain && constant != nullptr)
            widen(load_states(constant), numbers);
        else
            widen(step, numbers);
    }
    // The element of the lane's own row at a step.
    __device__ __forceinline__ X* own_element(const View& view, uint32_t time) const {
        return reinterpret_cast<X*>(view.data + times(own.batch, view.batch) + times(channel, view.row) +
                                    times(time, view.time));
    }
    __device__ __forceinline__ bool has_step(const StepSpan& span, uint32_t nth) const {
        return Plain || nth < span.steps;
    }
    __device__ __forceinline__ void load(uint32_t nth, Loaded& step) const {
        if (has_step(own, nth)) {
            const uint32_t time = own.time_of(nth, p.down);
            step.delta = *own_element(p.delta, time);
            step.input = *own_element(p.input, time);
            if (p.gate.data != nullptr) step.gate = *own_element(p.gate, time);
        }
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            if (!has_step(spans[r], nth)) continue;
            const uint32_t batch = spans[r].batch, time = spans[r].time_of(nth, p.down);
            if (Plain || p.b.data != nullptr) step.b[r] = load_step(p.b, batch, time);
            if (Plain || p.c.data != nullptr) step.c[r] = load_step(p.c, batch, time);
            if (!Plain) step.reset[r] = spans[r].reset_at(p.reset, p.time, time);
        }
    }
    __device__ __forceinline__ R parameter(const void* data) const {
        return data != nullptr ? static_cast<const R*>(data)[channel] : R(0);
    }

    // Takes a step: h becomes the states after it. Returns the output of the lane's own row.
    __device__ __forceinline__ R take(uint32_t nth, const Loaded& step, const Numbers& rates, R bias, R d,
                                      Numbers (&h)[Rows]) const {
        constexpr R factor = std::is_same_v<V, R> ? R(1) : R(2);
        const R input = Element<X>::widen(step.input);
        R delta = Element<X>::widen(step.delta) + bias;
        if (p.softplus) delta = softplus(delta);
        const R scaled = delta * input;
        R sums[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            const R of_delta = of_row(delta, r), of_scaled = of_row(scaled, r);
            sums[r] = R(0);
            if (!has_step(spans[r], nth)) continue;
            if (!Plain && step.reset[r] != 0) h[r] = {};
            V b[States], c[States];
            look_up(p.constant_b, step.b[r], b);
            look_up(p.constant_c, step.c[r], c);
#pragma unroll
            for (int n = 0; n < States; ++n) {
                V& one = h[r].part[n];
                one = multiply_add(decay_of(of_delta, rates.part[n]), one, of_scaled * b[n]);
                sums[r] = add_real_product(c[n], one, sums[r]);
            }
        }
        const R y = multiply_add(d, input, factor * sum_over_lanes<Lanes>(sums, lane));
        if (p.gate.data == nullptr) return y;
        const R z = Element<X>::widen(step.gate);
        return y * (z * sigmoids(z).open);
    }

    __device__ __forceinline__ void run() const {
        uint32_t steps = 0;
#pragma unroll
        for (int r = 0; r < Rows; ++r) steps = max(steps, spans[r].steps);
        Loaded step;
        if constexpr (!Plain) step = {};
        if (steps > 0) load(0, step);
        Numbers rates = load_states(p.a), h[Rows];
        const R bias = parameter(p.bias), d = parameter(p.d);
        // Rows of the states in memory; -1 for padding.
        const auto own_place = static_cast<int32_t>(row_of_pool(index, s.states.rows));
        int32_t places[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            places[r] = of_row(own_place, r);
            h[r] = {};
            if (places[r] >= 0 && s.states.in != nullptr)
                h[r] = load_states(s.states.in + times(places[r], s.states.in_step));
        }
        asm volatile("" ::: "memory");  // the compiler would move loads to where their values are used
#pragma unroll
        for (int n = 0; n < States; ++n) rates.part[n] = decay_rate(rates.part[n]);
#pragma unroll 1
        for (uint32_t i = 0; i < steps; ++i) {
            const R y = take(i, step, rates, bias, d, h);
            if (has_own && has_step(own, i))
                *own_element(p.output, own.time_of(i, p.down)) = Element<X>::narrow(own_place < 0 ? R(0) : y);
            if (i + 1 < steps) load(i + 1, step);
        }
        if (s.states.out == nullptr || !has_channel) return;
#pragma unroll
        for (int r = 0; r < Rows; ++r)
            if (places[r] >= 0) store_states(s.states.out + times(places[r], s.states.out_step), h[r]);
    }

  private:
    int32_t index;  // of the own row's states, as it is in memory; -1 without a row
};

// Blocks per multiprocessor, for which __launch_bounds__ limits the registers.
template <typename X, typename V, int States>
constexpr int selective_step_blocks = !std::is_same_v<V, float> || States > 4 ? 1
                                      : sizeof(X) == 2                        ? 4
                                                                              : 3;

template <typename X, typename V, int Lanes, int States, bool Plain>
__global__ void __launch_bounds__(selective_step_threads, selective_step_blocks<X, V, States>)
    selective_decode(const __grid_constant__ SelectiveParams p, const __grid_constant__ SelectiveStepParams s) {
    SelectiveLanes<X, V, Lanes, States, Plain>(p, s).run();
}

}  // namespace flashscan::cuda
