// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels of gated layers, by dtype.
#pragma once

#include "core/types.h"
#include "math/gated.h"

namespace flashscan::cuda {

// The kernels of a pass in one layout: for plain problems (gated/tile.cuh) one for each named layer, one for any parts
// and one for any parts of few rows, which f64 has not, and one for every problem.
struct GatedPass {
    const void* named[gated_layer_count] = {};
    const void *plain = nullptr, *few_rows = nullptr, *general = nullptr;
    int threads = 0, warps = 0;             // threads and warps of a block
    int warp_steps = 0, warp_channels = 0;  // steps and channels of a warp
    int lane_steps = 0, lane_channels = 0;  // steps and channels of a lane
    int vector_bytes = 0;                   // bytes that a lane of a plain kernel loads at once
};
struct GatedKernels {
    GatedPass forward[2], backward[2];  // [0] with channels innermost, [1] with time innermost
    const void *pass_states = nullptr, *sums = nullptr;
};

// The kernels for forward over few steps: for each named layer without BIAS, or null, and for any layer.
struct GatedStepKernels {
    const void* named[gated_layer_count] = {};
    const void* any = nullptr;
    int channels = 0;  // channels of a thread
};
GatedStepKernels gated_step_kernels(Dtype dtype, Dtype gate_dtype);

GatedKernels gated_f32();
GatedKernels gated_bf16();
GatedKernels gated_f16();
GatedKernels gated_f64();

// The entry of data of `dtype`.
const GatedKernels& gated_kernels(Dtype dtype);

}  // namespace flashscan::cuda
