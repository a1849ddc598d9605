// SPDX-License-Identifier: Apache-2.0
// What the fused kernels of recurrent networks are launched with: plain data, no CUDA types.
//
// A job is a head and a tile of rows. A team of blocks, each with some units (elements of the head), walks a job from
// its first step to its last, then its next job. RESERVE of these kernels is
//
//     kept    [T, rows, H, groups of 8 units, kept, 8]     f32; packed: one row
//
// Rows are entries of the batch or packed sequences. Those of a tile start together; one that has ended idles.
#pragma once

#include "cuda/rnn/params.h"

namespace flashscan::cuda {

// What the blocks of a team are to each other.
enum class Team {
    block,  // the only one
    cluster,
    grid
};

struct RnnFusedParams {
    RnnParams p;
    int32_t heads = 0;
    int32_t blocks = 0;  // of a team
    int32_t teams = 0;
    int32_t tiles = 0;  // of rows, per head
    int32_t jobs = 0;
    int64_t first = 0, end = 0;     // steps of this launch; forward, packed: all
    SequenceOffsets offsets;        // data is null when not packed
    const void* weights = nullptr;  // as RnnFusedWeightParams orders them
    // rnn_ring_slots slots for each team, filled with ones, or of teams that scatter rnn_scatter_slots, filled with
    // zeros; null: the team needs none.
    void* ring = nullptr;
    // Backward.
    float clip = 0;             // of p
    int32_t input_words = 0;    // GRAD|INPUT may be stored two units at a time
    void* gradients = nullptr;  // [steps of the launch, rows, H, G, padded], step `first` in front; packed: [T, H, ..]
    void* factors = nullptr;    // [steps of the launch, rows, H, padded]; null: not asked for
};

inline constexpr int rnn_ring_slots = 64, rnn_ring_cleared = 16, rnn_scatter_slots = 4;

// WEIGHT [G, H, D, D] as the left operands of all warps: [H, blocks, unit warps, parts of k, planes, tiles, steps,
// lanes] of 16 bytes, see team.cuh. Backward: of R^T, with k = gate * period + out, of which a block of a team that
// scatters (team_scatter.cuh) has its own units and all rows.
struct RnnFusedWeightParams {
    const void* from = nullptr;
    void* to = nullptr;
    int32_t gates = 0;  // of the cell
    int32_t heads = 0, dim = 0, blocks = 0;
    int32_t row_gates = 0;  // of a unit in the rows: all, in backward one
    int32_t groups = 0, unit_warps = 0, parts = 0, planes = 0, tiles = 0, steps = 0;
    int32_t period = 0;  // 0: forward
    int32_t scatters = 0;
};

}  // namespace flashscan::cuda
