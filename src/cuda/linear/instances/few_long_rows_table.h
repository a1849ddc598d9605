// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear_few_long_rows and linear_few_long_strips kernels, with one entry for each dtype; gates have
// the dtype of the data.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// The shape of a kernel's tiles, as it was compiled.
struct FewLongRowsFacts {
    int lane_rows = 1, steps = 0;  // V and L: rows and steps of a lane
    int rows = 1;                  // the most rows of a chunk
    int warps = 0;                 // warps of a block that walk
    int threads = 0;               // all threads of a block
    int stage_bytes = 0;           // shared memory of a chunk
    int ring = 0;                  // stages of a ring buffer
    int slots = 0;                 // waves whose summaries and carries are exchanged at the same time
};

struct FewLongRowsKernels {
    Dtype dtype{};
    const void* kernel[2][2][2] = {};  // [time_inner][down][backward]; null where there is none
    FewLongRowsFacts facts[2][2];      // [time_inner][backward]
};

// The entry of a dtype; null where there is none, or the gates have another dtype.
const FewLongRowsKernels* few_long_rows_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
