// SPDX-License-Identifier: Apache-2.0
// The fused kernels for recurrent networks that are compiled: for each cell and dtype the shapes of a team.
#pragma once

#include <span>

#include "core/types.h"
#include "cuda/rnn/fused/params.h"

namespace flashscan::cuda {

// One kernel: what a block of it needs and holds.
struct RnnFusedKernel {
    const void* function = nullptr;
    int threads = 0, product_threads = 0;  // product_threads: those that hold weights
    int shared_bytes = 0;
    int units = 0;  // of a block
    int rows = 0;   // of a team
    int depth = 0;  // k of a product: units, in backward times gates
    bool scatters = false;
    int kept = 0;  // f32 numbers of RESERVE for an element and step
    // How its lanes hold weights: see RnnFusedWeightParams.
    int row_gates = 0, groups = 0, unit_warps = 0, parts = 0, planes = 0, tiles = 0, steps = 0;
};

struct RnnFusedShape {
    Team kind{};
    int head_dim = 0;  // the largest
    RnnFusedKernel forward, backward;
};

// Orders WEIGHT for them: a thread for each 16 bytes, in blocks of rnn_fused_weight_block.
const void* rnn_fused_weight_kernel(Dtype dtype, Dtype weight_dtype);
inline constexpr int rnn_fused_weight_block = 256;

// Shapes of `cell`, smaller head dims in front, then fewer rows, then in order of preference; none where there is no
// fused kernel.
std::span<const RnnFusedShape> rnn_fused_shapes(Dtype dtype, Cell cell);

}  // namespace flashscan::cuda
