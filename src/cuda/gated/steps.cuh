// SPDX-License-Identifier: Apache-2.0
// The kernel for the forward pass of a gated layer over few steps, as in decoding: h = a h + b step by step
// (math/gated.h).
//
// Ownership  A thread owns one channel of one row of the states and walks the row's steps with h in a register.
// Bytes      Every element of the named arrays and of the states moves once.
// Sync       None; no block waits for another.
// Limits     None. It is slow for long rows, since the loads of a step wait for the step before.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/gated/parts.cuh"

namespace flashscan::cuda {

// What a thread of gated_steps reads and writes.
template <typename X>
struct GatedStepRow {
    using R = typename Element<X>::Wide;
    const GatedParams& p;
    int64_t batch, channel;

    template <typename T>
    __device__ __forceinline__ T& at(const View& view, int64_t time) const {
        return *reinterpret_cast<T*>(view.data + batch * view.batch + channel * view.row + time * view.time);
    }
    __device__ __forceinline__ R load(const View& view, int64_t time) const {
        return view.data == nullptr ? R(0) : Element<X>::widen(at<const X>(view, time));
    }
    __device__ __forceinline__ R load_gate(const View& view, int64_t time) const {
        return p.wide_gates && view.data != nullptr ? at<const R>(view, time) : load(view, time);
    }
    __device__ __forceinline__ void store(const View& view, int64_t time, R value) const {
        if (view.data != nullptr) at<X>(view, time) = Element<X>::narrow(value);
    }
    __device__ __forceinline__ R parameter(const void* data) const {
        if (data == nullptr) return R(0);
        return p.wide_params ? static_cast<const R*>(data)[channel]
                             : Element<X>::widen(static_cast<const X*>(data)[channel]);
    }
};

template <typename X>
__global__ void __launch_bounds__(gated_step_threads) gated_steps(const __grid_constant__ GatedParams p) {
    using R = typename Element<X>::Wide;
    const uint32_t row = quotient(blockIdx.x, p.by_groups);
    const uint32_t group = blockIdx.x - row * static_cast<uint32_t>(p.groups);
    const GatedStepRow<X> own{p, p.offsets.data == nullptr ? row : 0,
                              static_cast<int64_t>(group) * gated_step_threads + threadIdx.x};
    if (own.channel >= p.channels) return;
    int64_t begin = 0, end = p.time;
    if (p.offsets.data != nullptr) {
        begin = load_offset(p.offsets, row);
        end = load_offset(p.offsets, row + 1);
    }
    const R bias = own.parameter(p.bias);
    R rate[1] = {R(0)};
    if (p.param != nullptr)
        rate[0] =
            gated::rate_of(static_cast<Decay>(p.decay), own.parameter(p.param), static_cast<R>(p.decay_rate)).value;
    const int64_t state = row * p.channels + own.channel;
    R h = p.state_in == nullptr ? R(0) : static_cast<const R*>(p.state_in)[state];
    for (int64_t step = begin; step < end; ++step) {
        const int64_t time = p.down ? begin + end - 1 - step : step;
        const bool first = step == begin, reset = p.reset != nullptr && p.reset[own.batch * p.time + time] != 0;
        const bool open = (p.first_step && reset) || (p.starts_open && first);
        const R gate[1] = {own.load_gate(p.gate, time) + bias}, second[1] = {own.load_gate(p.second_gate, time)};
        const R input[1] = {own.load(p.input, time)}, input_gate[1] = {own.load(p.input_gate, time)};
        const R output_gate[1] = {own.load(p.output_gate, time)};
        R a[1], b[1];
        make_maps<AnyParts, true>(p, gate, second, input, input_gate, rate, open, a, b);
        h = reset || (first && p.state_in == nullptr) ? b[0] : multiply_add(a[0], h, b[0]);
        own.store(p.states, time, h);
        R y[1] = {h};
        apply_epilogue<AnyParts, true>(p, output_gate, y);
        own.store(p.output, time, y[0]);
    }
    if (p.state_out != nullptr) static_cast<R*>(p.state_out)[state] = h;
}

}  // namespace flashscan::cuda
