// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels of gated layers, by dtype.
#pragma once

#include "core/types.h"
#include "math/gated.h"

namespace flashscan::cuda {

// The kernels of plain problems (gated/tile.cuh): one for each named layer, and one for any parts. f64 has none.
struct GatedPlainKernels {
    const void* named[gated_layer_count] = {};
    const void* any = nullptr;
};
// The kernels of a pass in one layout, and what they have in common.
struct GatedPass {
    GatedPlainKernels plain;
    GatedPlainKernels few_rows;             // plain, for few rows, whose chunks look back; without PTX
    const void* general = nullptr;          // for every problem
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

// These add the kernels of few rows.
GatedKernels with_gated_few_rows_f32(const GatedKernels& kernels);
GatedKernels with_gated_few_rows_bf16(const GatedKernels& kernels);
GatedKernels with_gated_few_rows_f16(const GatedKernels& kernels);

// The entry of data of `dtype`.
const GatedKernels& gated_kernels(Dtype dtype);

}  // namespace flashscan::cuda
