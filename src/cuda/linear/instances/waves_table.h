// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear_waves and linear_strip_waves kernels: one entry a dtype, gates of the same.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct WaveFacts {
    int lane_rows = 1, steps = 0;  // V and L
    int rows = 1;                  // of a chunk at the most
    int warps = 0;                 // of a block that walk
    int threads = 0;               // of a block
    int stage_bytes = 0;           // of a chunk in shared memory
    int ring = 0;                  // stages of a block
    int slots = 0;                 // of waves under way
};

struct WaveKernels {
    Dtype dtype{};
    const void* kernel[2][2][2] = {};  // [time_inner][down][backward]; null where there is none
    WaveFacts facts[2][2];             // [time_inner][backward]
};

// Null where there is none for the pair.
const WaveKernels* wave_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
