// SPDX-License-Identifier: Apache-2.0
// The cells of a step of a recurrent network, which the kernels of this folder share.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/scan/lane_sums.cuh"
#include "cuda/device/tile/step_rows.cuh"
#include "cuda/rnn/decode/params.h"
#include "cuda/rnn/real.cuh"

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

    // Lane `number * rows + row` loads pre-activation `number` and state `number` of batch row `row`; finish() passes
    // them to the first lanes by shuffles.
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

}  // namespace flashscan::cuda
