// SPDX-License-Identifier: Apache-2.0
// What linear_waves and linear_strip_waves are launched with beside LinearParams.
#pragma once

#include "cuda/linear/params.h"

namespace flashscan::cuda {

inline constexpr int wave_most_blocks = 160;  // whose summaries a warp composes

// The chunks of all rows stand in one line, a row after the other; LinearParams::chunks is their number in a row.
struct WavesParams {
    uint32_t chunks = 0;  // of all rows
    Divisor by_chunks;    // of a row
    int32_t ring = 0;     // stages that a warp has in shared memory
};

// A team of blocks has every `teams`-th strip, whose chunks stand in one line, a strip after the other;
// LinearParams::chunks is their number in a strip.
struct StripWavesParams {
    uint32_t chunks = 0;  // of a team's strips
    Divisor by_chunks;    // of a strip
    uint32_t teams = 1;
    int32_t dense = 0;      // the steps of a strip lie together in every tensor
    int32_t box_steps = 0;  // else: of a map's box
};

}  // namespace flashscan::cuda
