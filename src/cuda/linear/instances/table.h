// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear recurrence kernels: one entry a pair of data and gate dtype.
#pragma once

#include "core/types.h"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// Shape of the tiles of one kernel.
struct TileFacts {
    int lane_rows;     // V
    int steps;         // L
    int warps;         // of a block
    int shared_bytes;  // dynamic shared memory of a block
    int sum_bytes;     // more of it where the gate's gradient is summed step by step
};

// The same of linear_relay.
struct RelayFacts {
    int lane_rows, steps;
    int stage_bytes;  // of a stage in shared memory
    int warp_bytes;   // more of it for each warp
};

struct LinearKernels {
    Dtype dtype, gate_dtype;
    int record_bytes, carry_bytes;  // of a row's published summary and carry
    const void* stream[2][2][2];    // [time innermost][down][backward]
    TileFacts stream_tile[2][2];    // [time innermost][backward]
    const void* chunked[access_count][2][2];
    TileFacts chunked_tile[access_count][2];
    const void* rows[2][2];        // [down][backward], tiles as chunked; null where gates and data are not of one size
    int rows_skew;                 // steps that a row may have before its first, at the most
    const void* columns[2][2][2];  // [rows of a lane less one][down][backward]; null where there are no such lanes
    TileFacts columns_tile[2][2];  // [rows of a lane less one][backward]
    const void* skewed_columns[2][2];  // [down][backward], tiles as columns of two rows a lane; null where not faster
    const void* relay[2][2];           // [down][backward]; null where columns are faster
    RelayFacts relay_tile[2];
    const void* reduce_gate_gradient;
    const void* pass_empty_sequences;
};

// The entry of a pair; every pair that core accepts has one.
const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
