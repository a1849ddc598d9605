// SPDX-License-Identifier: Apache-2.0
// What linear_waves is launched with beside LinearParams.
#pragma once

#include "cuda/kernels/linear_params.h"

namespace flashscan::cuda {

inline constexpr int wave_most_blocks = 160;  // whose summaries a warp composes

// The chunks of all rows stand in one line, a row after the other; LinearParams::chunks is their number in a row.
struct WavesParams {
    uint32_t chunks = 0;  // of all rows
    Divisor by_chunks;    // of a row
    int32_t ring = 0;     // stages that a warp has in shared memory
};

}  // namespace flashscan::cuda
