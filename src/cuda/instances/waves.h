// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear_waves kernels: one entry a dtype, gates of the same.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct WaveFacts {
    int steps, warps;  // L, warps of a block that walk
    int threads;       // of a block
    int stage_bytes;   // of a warp's stage in shared memory
    int slots;         // of waves under way
};

struct WaveKernels {
    Dtype dtype;
    const void* kernel[2][2];  // [down][backward]
    WaveFacts facts[2];
};

// Null where there is none for the pair.
const WaveKernels* wave_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
