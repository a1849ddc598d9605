// SPDX-License-Identifier: Apache-2.0
// The order of the blocks of chained scans (chained_rows.cuh, chained_columns.cuh).
#pragma once

#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int chained_warps = 8;               // the most warps of a block
inline constexpr int chunk_group = 128;               // chunks of a group of chained rows (chunk_groups.cuh)
inline constexpr int column_chunk_group = 4;          // and of chained columns
inline constexpr int column_group_record_bytes = 16;  // the most of the summaries of a lane's rows there

// The groups of all batch entries are divided into sets (block_order.cuh). A group is some rows of a chained scan of
// rows, or some strips of one of columns.
struct ChainedSets {
    uint32_t groups = 0, blocks = 0;  // groups of a set, and blocks of a set: one for each of its groups and chunks
    Divisor by_groups, by_blocks;     // divide by them
    Divisor by_rows;                  // chained_rows.cuh alone: divides by the rows of a batch entry, or by its blocks
};

}  // namespace flashscan::cuda
