// SPDX-License-Identifier: Apache-2.0
// The kernel clear_look_back sets all bits of the memory through which chunks exchange values. It lets the launch that
// uses the memory begin at once (programmatic dependent launch). A thread writes 8-byte words in a grid-stride loop.
#pragma once

#include <cstdint>

#include "cuda/device/ptx/launch.cuh"

namespace flashscan::cuda {

__global__ void __launch_bounds__(256) clear_look_back(uint64_t* words, int64_t count) {
    ptx::let_next_launch_begin();
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += gridDim.x * 256)
        words[i] = ~uint64_t{0};
}

}  // namespace flashscan::cuda
