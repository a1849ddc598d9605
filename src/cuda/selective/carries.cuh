// SPDX-License-Identifier: Apache-2.0
// The kernel selective_carries finds the carry into each segment of a row of a selective scan, given the states that
// each segment leaves when it starts from zeros. A thread goes through the segments of one state of one channel. The
// product of a segment's factors is exp(A sum d), which does not overflow or underflow where applying the factors one
// after the other does not.
#pragma once

#include "cuda/device/math/decay.cuh"
#include "cuda/selective/params.h"

namespace flashscan::cuda {

template <typename V, typename R>
__global__ void __launch_bounds__(256) selective_carries(const __grid_constant__ SelectiveCarryParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, numbers = p.channels * p.states;
    if (i >= p.rows * numbers) return;
    const int64_t row = i / numbers, number = i % numbers, channel = number / p.states;
    const V rate = decay_rate(static_cast<const V*>(p.a)[number]);
    V carry = p.first == nullptr ? V{} : static_cast<const V*>(p.first)[i];
    for (int32_t n = 0; n < p.segments; ++n) {
        const int64_t part = row * p.segments + (p.adjoint ? p.segments - 1 - n : n);
        V& end = static_cast<V*>(p.ends)[part * numbers + number];
        const V own = end;
        end = carry;
        const R deltas = static_cast<const R*>(p.deltas)[part * p.channels + channel];
        carry = join_decayed(carry, own, deltas, rate, p.adjoint != 0);
    }
}

}  // namespace flashscan::cuda
