// SPDX-License-Identifier: Apache-2.0
// The kernel selective_sums adds the partial sums that the blocks of selective_backward stored in SCRATCH, in the order
// of the blocks. A thread adds the parts of one number and stores the sum as an element of type E.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/selective/params.h"

namespace flashscan::cuda {

template <typename E, typename V>
__global__ void __launch_bounds__(256) selective_sums(const __grid_constant__ SelectiveSumParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.numbers) return;
    const int64_t line = p.result == nullptr ? i / p.width : 0, step = p.result == nullptr ? line % p.time : 0;
    if (p.result == nullptr && step >= end_of_steps(p.offsets, p.time)) return;
    V sum{};
#pragma unroll 8
    for (int64_t part = 0; part < p.parts; ++part) sum = sum + static_cast<const V*>(p.sums)[part * p.numbers + i];
    if (p.result != nullptr) {
        static_cast<V*>(p.result)[i] = sum;
        return;
    }
    char* const to = p.steps.data + line / p.time * p.steps.batch + step * p.steps.time + i % p.width * p.steps.row;
    *reinterpret_cast<E*>(to) = Element<E>::narrow(sum);
}

}  // namespace flashscan::cuda
