// SPDX-License-Identifier: Apache-2.0
// The tile of linear_few_long_rows_time and linear_few_long_rows_channels, and what they are launched with beside
// LinearParams.
#pragma once

#include "cuda/linear/params.h"

namespace flashscan::cuda {

// The most blocks of a launch, or of a team: one warp composes the summaries of them all, five for each lane.
inline constexpr int wave_most_blocks = 160;

// The tile that a kernel "few_long_rows" was compiled for.
struct FewLongRowsTile {
    int lane_rows = 1, steps = 0;  // rows and steps of a lane
    int rows = 1;                  // the most rows of a chunk
    int warps = 0;                 // warps of a block that walk
    int ring = 0;                  // stages of a ring buffer in shared memory
};

// Arguments of linear_few_long_rows_time. Chunks are numbered through all rows, one row after the other.
struct FewLongRowsParams {
    uint32_t chunks = 0;  // chunks of all rows together
    Divisor by_chunks;    // divides by the chunks of a row, LinearParams::chunks
    int32_t ring = 0;     // stages in the ring buffer that each warp has in shared memory
};

// Arguments of linear_few_long_rows_channels. The blocks are divided into teams, of which each has every `teams`-th
// strip; chunks are numbered through the strips of a team, one strip after the other.
struct FewLongStripsParams {
    uint32_t chunks = 0;    // chunks of a team's strips together
    Divisor by_chunks;      // divides by the chunks of a strip, LinearParams::chunks
    uint32_t teams = 1;     // how many teams of blocks there are
    int32_t dense = 0;      // whether the steps of a strip lie next to each other in every tensor
    int32_t box_steps = 0;  // where they do not: steps of a box of the tensor maps
};

}  // namespace flashscan::cuda
