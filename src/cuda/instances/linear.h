// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear recurrence kernels: one entry a pair of data and gate dtype.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// Shape of the tiles of one algorithm in one layout.
struct TileFacts {
    int channels_per_lane;  // V
    int steps;              // L
    int warps;              // of a block
    int log2_widest;        // most packs of channels side by side in a warp
    bool dense;             // tiles with channels innermost are as the copy engine lays them, at any width
    int shared_bytes[2];    // [backward]
    int event_bytes;        // of a warp, further shared memory when there are events
};

struct LinearKernels {
    Dtype dtype, gate_dtype;
    int record_bytes, carry_bytes;  // of a row's published summary and carry
    const void* stream[2][2][2];    // [time innermost][down][backward]
    const void* chunked[2][2][2];
    TileFacts stream_tile[2], chunked_tile[2];  // [time innermost]
    const void* reduce_gate_gradient;
    const void* pass_empty_sequences;
};

// The entry of a pair; every pair that core accepts has one.
const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
