// SPDX-License-Identifier: Apache-2.0
// Exponential decay, exp(delta a): the factor of a step, and of several with the sum of their deltas.
#pragma once

#include "cuda/device/math/types.cuh"
#include "math/activation.h"

namespace flashscan::cuda {

// Turns a into a rate, from which decay_of computes the factor.
__device__ __forceinline__ float decay_rate(float a) { return a * log2_e; }
template <typename V>
__device__ __forceinline__ V decay_rate(V a) {
    return a;
}
__device__ __forceinline__ float decay_of(float delta, float rate) { return ptx::quick_exp2(delta * rate); }
template <typename R, typename V>
__device__ __forceinline__ V decay_of(R delta, V rate) {
    return exp_of(delta * rate);
}

// Applies the summary of a run of steps to `carry`: returns the state after the steps or, with `adjoint`, the gradient
// of the state before them. The summary is `own`, the result for a carry of zero, and `deltas`, the sum of the steps'
// deltas, NaN where a reset cuts the run. A carry of zero is not multiplied, since the factor may be infinite. Where
// the sum is 0, as without steps, the factor is 1 although a may be infinite.
template <typename V, typename R>
__device__ __forceinline__ V join_decayed(V carry, V own, R deltas, V rate, bool adjoint) {
    const V decay = decay_of(deltas, rate);
    const V joined = deltas == R(0) ? carry + own : multiply_add(adjoint ? conj(decay) : decay, carry, own);
    return deltas != deltas || is_zero(carry) ? own : joined;
}

}  // namespace flashscan::cuda
