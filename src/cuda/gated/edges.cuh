// SPDX-License-Identifier: Apache-2.0
// The small kernels of gated layers: gated_pass_states copies the states of sequences without steps, and gated_sums
// adds the partial sums of chunks for the gradients of PARAM and BIAS.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/gated/params.h"

namespace flashscan::cuda {

// Copies the states of sequences without steps; a thread copies one number. Without `from` it writes zeros.
template <typename R>
__global__ void __launch_bounds__(256) gated_pass_states(const __grid_constant__ GatedEdgeParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.numbers) return;
    const int64_t row = i / p.channels;
    if (p.offsets.data != nullptr && load_offset(p.offsets, row + 1) > load_offset(p.offsets, row)) return;
    static_cast<R*>(p.to)[i] = p.from == nullptr ? R(0) : static_cast<const R*>(p.from)[i];
}

// Adds the parts of the sums. A block of 32 x 32 threads has 32 channels: each row of threads adds some parts in order,
// then the sums of the rows are added in order.
template <typename X>
__global__ void __launch_bounds__(1024) gated_sums(const __grid_constant__ GatedSumParams p) {
    using R = typename Element<X>::Wide;
    __shared__ R rows[2][32][32];
    const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32;
    const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + lane, each = (p.parts + 31) / 32;
    R rate = R(0), bias = R(0);
    for (int64_t part = row * each; part < min((row + 1) * each, p.parts) && c < p.channels; ++part) {
        rate = rate + static_cast<const R*>(p.sums)[part * 2 * p.channels + c];
        bias = bias + static_cast<const R*>(p.sums)[(part * 2 + 1) * p.channels + c];
    }
    rows[0][row][lane] = rate;
    rows[1][row][lane] = bias;
    __syncthreads();
    if (row > 1 || c >= p.channels) return;
    R sum = R(0);
    for (int i = 0; i < 32; ++i) sum = sum + rows[row][i][lane];
    void* const to = row == 0 ? p.param : p.bias;
    if (to == nullptr) return;
    if (p.wide)
        static_cast<R*>(to)[c] = sum;
    else
        static_cast<X*>(to)[c] = Element<X>::narrow(sum);
}

}  // namespace flashscan::cuda
