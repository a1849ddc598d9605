// SPDX-License-Identifier: Apache-2.0
// The table of compiled fused kernels of recurrent networks: for each cell and dtype the shapes of a team.
#pragma once

#include <span>

#include "core/types.h"
#include "cuda/rnn/fused/params.h"

namespace flashscan::cuda {

// One kernel, and what a block of it needs and holds.
struct RnnFusedKernel {
    const void* function = nullptr;
    int threads = 0, product_threads = 0;  // threads of a block, and those of them that hold weights
    int shared_bytes = 0;
    int units = 0;          // units of a block
    int rows = 0;           // rows of a team
    int depth = 0;          // the extent k of a product: units of the head, in backward times gates
    bool scatters = false;  // whether blocks exchange by reduce-scatter (team_scatter.cuh)
    int kept = 0;           // f32 numbers of RESERVE for an element and step
    // How its lanes hold weights; see RnnFusedWeightParams.
    int row_gates = 0, groups = 0, unit_warps = 0, parts = 0, planes = 0, tiles = 0, steps = 0;
};

struct RnnFusedShape {
    Team kind{};
    int head_dim = 0;  // the largest that it takes
    RnnFusedKernel forward, backward;
};

// The kernel that orders WEIGHT for them. It is launched with a thread for each 16 bytes, in blocks of
// rnn_fused_weight_block.
const void* rnn_fused_weight_kernel(Dtype dtype, Dtype weight_dtype);
inline constexpr int rnn_fused_weight_block = 256;

// The shapes of `cell`, ordered by head dim, then by rows, then by preference; empty where there is no fused kernel.
std::span<const RnnFusedShape> rnn_fused_shapes(Dtype dtype, Cell cell);

}  // namespace flashscan::cuda
