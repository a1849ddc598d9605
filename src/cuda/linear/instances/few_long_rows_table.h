// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled linear_few_long_rows_time and linear_few_long_rows_channels kernels, with one entry for
// each dtype; gates have the dtype of the data.
#pragma once

#include "core/types.h"
#include "cuda/linear/few_long_rows/params.h"

namespace flashscan::cuda {

// Sizes that are fixed when a kernel is compiled, which the host needs to plan and launch it.
struct FewLongRowsFacts {
    FewLongRowsTile tile;
    int threads = 0;      // all threads of a block
    int stage_bytes = 0;  // shared memory of a chunk
    int slots = 0;        // waves whose summaries and carries are exchanged at the same time
};

struct FewLongRowsKernels {
    Dtype dtype{};
    const void* kernel[2][2][2] = {};  // [time_inner][down][backward]; null where there is none
    FewLongRowsFacts facts[2][2];      // [time_inner][backward]
};

// The entry of a dtype; null where there is none, or the gates have another dtype.
const FewLongRowsKernels* few_long_rows_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
