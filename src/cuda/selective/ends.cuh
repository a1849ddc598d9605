// SPDX-License-Identifier: Apache-2.0
// The kernel selective_ends finds the state after all steps of a row of a selective scan, and the sum of d over them,
// from what the walks of forward.cuh know of segments. A thread goes through the segments of one state of one channel.
#pragma once

#include "cuda/device/math/decay.cuh"
#include "cuda/selective/ends.h"

namespace flashscan::cuda {

template <typename V, typename R>
__global__ void __launch_bounds__(256) selective_ends(const __grid_constant__ SelectiveEndParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, numbers = p.channels * p.states;
    if (i >= p.rows * numbers) return;
    const int64_t row = i / numbers, number = i % numbers, channel = number / p.states;
    const V rate = decay_rate(static_cast<const V*>(p.a)[number]);
    V carry = p.first == nullptr ? V{} : static_cast<const V*>(p.first)[i];
    R sum = R(0);
    for (int32_t n = 0; n < p.segments; ++n) {
        const int64_t part = row * p.parts + (p.adjoint ? p.segments - 1 - n : n);
        const V own = static_cast<const V*>(p.ends)[part * numbers + number];
        const R deltas = static_cast<const R*>(p.deltas)[part * p.channels + channel];
        carry = join_decayed(carry, own, deltas, rate, p.adjoint != 0);
        sum += deltas;
    }
    if (p.last != nullptr) static_cast<V*>(p.last)[i] = carry;
    if (p.delta_sums != nullptr && number % p.states == 0)
        static_cast<R*>(p.delta_sums)[row * p.channels + channel] = sum;
}

}  // namespace flashscan::cuda
