// SPDX-License-Identifier: Apache-2.0
// What linear_rows and linear_columns are launched with beside LinearParams.
#pragma once

#include "cuda/linear/params.h"

namespace flashscan::cuda {

// Blocks go through sets of groups of rows, or of strips of rows, of all batches (block_order.cuh).
struct RowsParams {
    uint32_t groups = 0, blocks = 0;  // of a set
    Divisor by_groups, by_blocks;
    Divisor by_rows;  // of linear_rows: those of a batch
};

}  // namespace flashscan::cuda
