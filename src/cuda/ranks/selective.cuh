// SPDX-License-Identifier: Apache-2.0
// The kernel enter_selective finds the states that enter a rank's steps of a selective scan. The steps of a rank
// multiply a state by one exponential of a sum over time and add what they make of zeros,
//
//     h' = exp(A sum of d) h + end        and of its gradient        g = conj(exp(A sum of d)) g' + end
//
// Ownership  A thread has a state of a channel and goes through the ranks before this one, the first of the pass first.
// Resets     A sum that is NaN marks a reset, which no state passes. Where it is 0, as without steps, the state stays.
#pragma once

#include "cuda/device/math/decay.cuh"
#include "cuda/launch/rank_threads.h"
#include "cuda/ranks/selective_params.h"

namespace flashscan::cuda {

template <typename V, typename R>
__global__ void __launch_bounds__(rank_threads) enter_selective(const __grid_constant__ RankSelectiveParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.numbers) return;
    const V rate = decay_rate(static_cast<const V*>(p.a)[i % p.row_numbers]);
    V carry{};
    for (int32_t k = 0; k < p.count; ++k) {
        const int64_t message = (p.first + k * p.step) * p.message_step;
        const V end = reinterpret_cast<const V*>(p.ends + message)[i];
        const R delta = reinterpret_cast<const R*>(p.deltas + message)[i / p.states];
        carry = join_decayed(carry, end, delta, rate, p.adjoint != 0);
    }
    static_cast<V*>(p.carry)[i] = carry;
}

}  // namespace flashscan::cuda
