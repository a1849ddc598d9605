// SPDX-License-Identifier: Apache-2.0
// What linear_rows and linear_columns are launched with beside LinearParams.
#pragma once

#include "cuda/kernels/linear_params.h"

namespace flashscan::cuda {

inline constexpr int skewed_pair_lanes = 31;  // of a warp of linear_columns that have rows

// Blocks go through sets of groups of rows, or of strips of rows, of all batches (set_order.cuh).
struct RowsParams {
    uint32_t groups = 0, blocks = 0;  // of a set
    Divisor by_groups, by_blocks;
    Divisor by_rows;  // of linear_rows: those of a batch
};

}  // namespace flashscan::cuda
