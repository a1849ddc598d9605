// SPDX-License-Identifier: Apache-2.0
// The compiled kernels "rows" and "columns" whose blocks sum the gradients of gates that their warps share
// (block_sums.cuh).
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// They have the tiles of the other kernels of those names, and are null where these are.
struct SharedGatesKernels {
    const void* rows[2];     // [down]
    int rows_bytes;          // dynamic shared memory of a warp
    const void* columns[2];  // [rows of a lane less one]
    int columns_bytes[2];
};

// For every pair that core accepts.
SharedGatesKernels shared_gates_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
