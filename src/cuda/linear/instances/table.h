// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear recurrence kernels, with one entry for each pair of data and gate dtype.
#pragma once

#include "core/types.h"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// The shape of a kernel's tiles, as it was compiled.
struct TileFacts {
    int lane_rows;     // V: rows of a lane
    int steps;         // L: steps of a lane
    int warps;         // warps of a block
    int shared_bytes;  // dynamic shared memory of a block
};

// "chunked" is compiled for every kind of access but the last, Access::time_vectors.
inline constexpr int chunked_accesses = static_cast<int>(Access::time_vectors);

struct LinearKernels {
    Dtype dtype, gate_dtype;
    int record_bytes, carry_bytes;                // bytes of the published summary and carry of a row
    const void* chunked[chunked_accesses][2][2];  // [Access][down][backward]; down with time innermost alone
    TileFacts chunked_tile[chunked_accesses][2];
    const void* rows[2][2];         // [down][backward]; null where gates and data differ in size
    TileFacts rows_tile[2];         // [backward]
    int rows_skew;                  // the most steps between the start of a row's first vector and the row
    const void* columns[2][2];      // [rows of a lane less one][backward]; null where that is not compiled
    TileFacts columns_tile[2][2];   // [rows of a lane less one][backward]
    const void* skewed_columns[2];  // [backward], tiles as columns of two rows a lane; null where not faster
    const void* reduce_gate_gradient;
    const void* find_gate_values;
    const void* pass_empty_sequences;
};

// The entry of a pair; every pair that core accepts has one.
const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
