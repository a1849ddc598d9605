// SPDX-License-Identifier: Apache-2.0
// Parameters of chained scans of numbers (numbers_chained.cuh, numbers_chained_index.cuh,
// numbers_chained_backward.cuh), apart from the order of their blocks, and of scans of short rows
// (numbers_short_rows.cuh).
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int short_number_warps = 4;  // of a block of number_short_rows

struct ShortNumberParams {
    const char* input = nullptr;     // [rows, time]
    char* output = nullptr;          // the same; null for a reduction
    void* reduced = nullptr;         // OUTPUT of a reduction, [rows]
    const void* state_in = nullptr;  // [rows] in the arithmetic's dtype; may be null
    void* state_out = nullptr;       // the same
    int64_t rows = 0;
    int32_t time = 0;
    int32_t log2_lanes = 0;  // of a row
    int32_t exclusive = 0;
    int32_t down = 0;  // whether the scan goes from the last step to the first
};

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
    SequenceOffsets offsets;  // never given, since another kernel scans packed sequences
    int32_t grouped = 0;      // whether chunks are gathered in groups
    // With time innermost: how many steps after its own tile a block brings another tile into L2; 0 for none.
    int64_t ahead = 0;
    void* carries = nullptr;  // carries into chunks, or into groups of them; all bits are one before the launch
    // Summaries of chunks, where they are gathered in groups: [batches, rows, chunks] with time innermost, otherwise
    // laid out as `carries`. All bits are one before the launch.
    void* records = nullptr;
    // The carry of the scan into each tile of the gradients: [rows of all batch entries, mark_places] with time
    // innermost, [batches, mark_places, rows] otherwise. number_rows_marks and number_columns_marks write nothing else;
    // the kernels of gradients read them.
    void* marks = nullptr;
    int64_t mark_places = 0;
    int64_t* index = nullptr;  // as OUTPUT; given to number_rows_index and number_columns_index alone
};

// Parameters of the gradients' kernels, whose walk is opposite to the scan's. Here `input` is INPUT, `output`
// GRAD|INPUT, `state_in` GRAD|STATE_OUT and `state_out` GRAD|STATE_IN.
struct NumberGradientParams : NumberChainParams {
    View grad_output;                     // data is null for a reduction
    const void* grad_reduced = nullptr;   // GRAD|OUTPUT of a reduction, [batches, rows]
    const void* scan_state_in = nullptr;  // STATE_IN
};

}  // namespace flashscan::cuda
