// SPDX-License-Identifier: Apache-2.0
// Arguments of the fused kernels of recurrent networks: plain data, no CUDA types.
//
// A job is a head and a tile of rows. A team of blocks, each with some units (elements of the head), walks a job from
// its first step to its last, then its next job. RESERVE of these kernels is
//
//     kept    [T, rows, H, groups of 8 units, kept, 8]     f32; packed sequences share one row
//
// Rows are entries of the batch or packed sequences. Those of a tile start together; one that has ended idles.
#pragma once

#include "cuda/rnn/params.h"

namespace flashscan::cuda {

// Which blocks make a team.
enum class Team {
    block,    // a single block
    cluster,  // the blocks of a cluster
    grid      // some blocks of a cooperative grid
};

struct RnnFusedParams {
    RnnParams p;
    int32_t heads = 0;
    int32_t blocks = 0;  // blocks of a team
    int32_t teams = 0;
    int32_t tiles = 0;  // tiles of rows for each head
    int32_t jobs = 0;
    int64_t first = 0, end = 0;     // steps of this launch; forward and with packed sequences they are all steps
    SequenceOffsets offsets;        // its data is null when not packed
    const void* weights = nullptr;  // ordered as RnnFusedWeightParams says
    // Memory through which the teams of a grid exchange: rnn_ring_slots slots for each team, filled with ones, or, for
    // teams that reduce-scatter, rnn_scatter_slots, filled with zeros. Other teams need none.
    void* ring = nullptr;
    // Backward.
    float clip = 0;             // p.clip as f32
    int32_t input_words = 0;    // whether GRAD|INPUT may be stored two units at a time
    void* gradients = nullptr;  // [steps of the launch, rows, H, G, padded], from step `first` on; packed: [T, H, ..]
    void* factors = nullptr;    // [steps of the launch, rows, H, padded]; null where not wanted
};

inline constexpr int rnn_ring_slots = 64, rnn_ring_cleared = 16, rnn_scatter_slots = 4;

// Arguments of the kernel that orders WEIGHT [G, H, D, D] as the left operands of all warps: [H, blocks, unit warps,
// parts of k, planes, tiles, steps, lanes] of 16 bytes (team.cuh). In backward the operands are those of R^T, with k =
// gate * period + out; a block of a team that reduce-scatters (team_scatter.cuh) has the k of its own units and all
// rows.
struct RnnFusedWeightParams {
    const void* from = nullptr;
    void* to = nullptr;
    int32_t gates = 0;  // gates of the cell
    int32_t heads = 0, dim = 0, blocks = 0;
    int32_t row_gates = 0;  // rows of the matrix for each unit: all gates in forward, one in backward
    int32_t groups = 0, unit_warps = 0, parts = 0, planes = 0, tiles = 0, steps = 0;
    int32_t period = 0;  // 0 in forward
    int32_t scatters = 0;
};

}  // namespace flashscan::cuda
