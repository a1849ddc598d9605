// SPDX-License-Identifier: Apache-2.0
// Parameters of chained scans of numbers (numbers_chained.cuh), apart from the order of their blocks.
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

struct NumberChainParams {
    View input, output;              // output.data is null for a reduction
    void* reduced = nullptr;         // OUTPUT of a reduction, [batches, rows]
    const void* state_in = nullptr;  // [batches, rows] in the arithmetic's dtype; may be null
    void* state_out = nullptr;       // the same
    int64_t batches = 0, rows = 0;   // rows of a batch entry
    int64_t time = 0;
    int64_t row_groups = 0;  // columns: groups of strips of a batch entry
    Divisor by_row_groups;
    int64_t chunks = 0;  // of a row
    int32_t log2_warp_rows = 0;
    int32_t exclusive = 0;
    SequenceOffsets offsets;  // not given: packed sequences are scanned by another kernel
    int32_t grouped = 0;      // whether chunks are gathered in groups
    int64_t ahead = 0;        // rows: steps from a tile to the later one that is brought into L2 with it; 0: none is
    void* carries = nullptr;  // carries into chunks, or into groups of them; all bits are one before the launch
    // Summaries of chunks, of rows [batches, rows, chunks], of columns as carries, where they are gathered in groups;
    // all bits are one here too.
    void* records = nullptr;
};

}  // namespace flashscan::cuda
