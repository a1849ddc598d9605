// SPDX-License-Identifier: Apache-2.0
// What linear_rows and linear_columns are launched with beside LinearParams.
#pragma once

#include "cuda/linear/params.h"

namespace flashscan::cuda {

// The block swizzle (block_order.cuh): the groups of all batch entries are divided into sets. A group is some rows of
// linear_rows, or some strips of linear_columns.
struct RowsParams {
    uint32_t groups = 0, blocks = 0;  // groups of a set, and blocks of a set: one for each of its groups and chunks
    Divisor by_groups, by_blocks;     // divide by them
    Divisor by_rows;                  // linear_rows alone: divides by the rows of a batch entry
};

}  // namespace flashscan::cuda
