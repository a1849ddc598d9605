// SPDX-License-Identifier: Apache-2.0
// The kernel for plain selective scans over few steps, as in decoding: every step has its own B and C, nothing is reset,
// each batch entry is one sequence, each lane has all of its states and loads its numbers at once, and strides have 32
// bits (the equations are in forward.cuh; steps.cuh takes all others).
//
// Ownership  `Lanes` neighbouring lanes own the states of a channel of `Rows` rows, four of them each. What a step has
//            one number of for each channel (d, the gate, OUTPUT) a lane computes for one of these rows.
// Bytes      Every state is read once and written once where it lies, which may be a row of a pool: 8 N bytes for each
//            channel and row in f32, which is most of what moves and bounds the kernel.
// Sync       Lanes hand d and d INPUT on, and add their products, by shuffles; no block waits for another.
#pragma once

#include "cuda/device/tile/long_product.cuh"
#include "cuda/device/tile/step_rows.cuh"
#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

inline constexpr int selective_plain_rows = 4;  // rows of a thread

template <typename X, int Lanes>
struct SelectivePlainSteps {
    static constexpr int Rows = selective_plain_rows, States = 4;
    static constexpr int share = Lanes / Rows;  // lanes that compute for the same row
    using Numbers = Pack<float, States>;
    using Step = Pack<X, States>;

    const SelectiveParams& p;
    const SelectiveStepParams& s;
    uint32_t first_row, rows;  // the thread's first row and how many of them exist
    uint32_t own_row;          // the row that the lane computes for; the last one that exists in place of others
    uint32_t channel, group;
    int lane;
    bool has_channel, has_own;

    __device__ __forceinline__ SelectivePlainSteps(const SelectiveParams& params,
                                                   const SelectiveStepParams& step_params)
        : p(params), s(step_params), lane(static_cast<int>(threadIdx.x % Lanes)) {
        const uint32_t rows_of_block = quotient(blockIdx.x, s.by_slices), slice = blockIdx.x - rows_of_block * p.slices;
        const uint32_t wanted = (slice * blockDim.x + threadIdx.x) / Lanes,
                       last = static_cast<uint32_t>(p.channels) - 1;
        first_row = rows_of_block * Rows;
        rows = min(s.rows - first_row, uint32_t{Rows});
        const uint32_t own = lane / share;
        own_row = first_row + min(own, rows - 1);
        // Lanes without a channel do the work of the last one, so that all lanes take part in shuffles.
        channel = min(wanted, last);
        has_channel = wanted <= last;
        has_own = has_channel && own < rows && lane % share == 0;
        group = quotient(channel, s.by_group_channels);
    }

    // The value of the lane that computes for row r of the thread's.
    template <typename T>
    __device__ __forceinline__ T of_row(T x, int r) const {
        return __shfl_sync(0xffffffffU, x, r * share, Lanes);
    }
    __device__ __forceinline__ X* own_element(const View& view, int32_t time) const {
        return reinterpret_cast<X*>(view.data + long_product(own_row, view.batch) + long_product(channel, view.row) +
                                    long_product(time, view.time));
    }
    __device__ __forceinline__ void load_steps(const View& view, int32_t time, Step (&steps)[Rows]) const {
        const char* const first = view.data + long_product(first_row, view.batch) + long_product(time, view.time) +
                                  (group * static_cast<uint32_t>(p.states) + lane * States) * int64_t{sizeof(X)};
#pragma unroll
        for (int r = 0; r < Rows; ++r)
            steps[r] = *reinterpret_cast<const Step*>(first + long_product(min(r, rows - 1), view.batch));
    }
    // The bytes from the states of a row to those of the lane.
    __device__ __forceinline__ int64_t place_of_states() const {
        return (int64_t{channel} * p.states + lane * States) * int64_t{sizeof(float)};
    }

    // The values that are loaded for a step.
    struct Loaded {
        Step b[Rows], c[Rows];
        X input, delta, gate;
    };
    __device__ __forceinline__ int32_t time_of(int32_t step) const {
        return p.down ? static_cast<int32_t>(p.time) - 1 - step : step;
    }
    __device__ __forceinline__ void load(int32_t time, Loaded& step) const {
        step.delta = *own_element(p.delta, time);
        step.input = *own_element(p.input, time);
        load_steps(p.b, time, step.b);
        load_steps(p.c, time, step.c);
        if (p.gate.data != nullptr) step.gate = *own_element(p.gate, time);
    }
    // Takes a step; h becomes the states after it. Returns the output of the lane's own row.
    __device__ __forceinline__ float take(const Loaded& step, const Numbers& rates, float bias, float d,
                                          Numbers (&h)[Rows]) const {
        const float input = Element<X>::widen(step.input);
        float delta = Element<X>::widen(step.delta) + bias;
        if (p.softplus) delta = softplus(delta);
        const float scaled = delta * input, power = selective_rate(delta);
        float sums[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            const float of_power = of_row(power, r), of_scaled = of_row(scaled, r);
            sums[r] = 0.0F;
#pragma unroll
            for (int n = 0; n < States; ++n) {
                float& one = h[r].part[n];
                one = multiply_add(selective_decay(of_power, rates.part[n]), one, of_scaled * step.b[r].get(n));
                sums[r] = multiply_add(step.c[r].get(n), one, sums[r]);
            }
        }
        const float y = multiply_add(d, input, sum_over_lanes<Lanes>(sums, lane));
        if (p.gate.data == nullptr) return y;
        const float gate = Element<X>::widen(step.gate);
        return y * (gate * sigmoids(gate).open);
    }

    __device__ __forceinline__ void run() const {
        const int32_t index = lane / share < rows ? index_of(s.states, own_row) : -1,
                      steps = static_cast<int32_t>(p.time);
        Loaded step;
        if (steps > 0) load(time_of(0), step);
        const int64_t place = place_of_states();
        const auto rates = *reinterpret_cast<const Numbers*>(static_cast<const char*>(p.a) + place);
        const float bias = parameter(p.bias), d = parameter(p.d);
        Numbers h[Rows];
        int32_t rows_of_states[Rows];  // in memory; -1 for padding
        const auto own_states = static_cast<int32_t>(row_of_pool(index, s.states.rows));
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            rows_of_states[r] = of_row(own_states, r);
            h[r] = {};
            if (rows_of_states[r] >= 0 && s.states.in != nullptr)
                h[r] = *reinterpret_cast<const Numbers*>(s.states.in + place +
                                                         long_product(rows_of_states[r], s.states.in_step));
        }
        asm volatile("" ::: "memory");  // the compiler would move loads to where their values are used
#pragma unroll 1
        for (int32_t i = 0; i < steps; ++i) {
            const float y = take(step, rates, bias, d, h);
            if (has_own) *own_element(p.output, time_of(i)) = Element<X>::narrow(own_states < 0 ? 0.0F : y);
            if (i + 1 < steps) load(time_of(i + 1), step);
        }
        if (s.states.out == nullptr || !has_channel) return;
#pragma unroll
        for (int r = 0; r < Rows; ++r)
            if (rows_of_states[r] >= 0)
                *reinterpret_cast<Numbers*>(s.states.out + place + long_product(rows_of_states[r], s.states.out_step)) =
                    h[r];
    }
    __device__ __forceinline__ float parameter(const void* data) const {
        return data != nullptr ? static_cast<const float*>(data)[channel] : 0.0F;
    }
};

template <typename X, int Lanes>
__global__ void __launch_bounds__(selective_step_threads, sizeof(X) == 2 ? 4 : 3)
    selective_plain_steps(const __grid_constant__ SelectiveParams p, const __grid_constant__ SelectiveStepParams s) {
    SelectivePlainSteps<X, Lanes>(p, s).run();
}

}  // namespace flashscan::cuda
