// SPDX-License-Identifier: Apache-2.0
// What the linear recurrence kernels are launched with: plain data, no CUDA types.
//
// Rows: a row is one sequence of steps, that is one (batch, channel) pair. The host folds the batch axis into the
// row axis where all strides allow (`batches` is then 1 and `rows` is B * C).
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int short_row_warps = 2;  // of a block of linear_short_rows
// The most stages that a warp of linear_few_long_rows_time has in its ring buffer in shared memory.
inline constexpr int most_stages = 8;

struct LinearParams {
    View gate;
    View source;     // forward: INPUT, backward: GRAD|OUTPUT
    View states;     // backward: OUTPUT; null when GRAD|GATE is not wanted
    View result;     // forward: OUTPUT, backward: GRAD|INPUT (may be null)
    View grad_gate;  // backward: GRAD|GATE, or terms of it in scratch memory; null where `partial` alone is used

    // The carries that enter and leave rows, [batches, rows]; null when packed. Forward they are STATE_IN and
    // STATE_OUT, backward GRAD|STATE_OUT and GRAD|STATE_IN.
    const void* edge_in = nullptr;
    void* edge_out = nullptr;
    // The carries that enter and leave packed sequences, [num_sequences, rows]; null when not packed.
    const void* carry_in = nullptr;
    void* carry_out = nullptr;
    const void* state_in = nullptr;  // backward: h before the first step, [batches or num_sequences, rows]

    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int32_t gate_form = 0;

    int64_t batches = 0, rows = 0;
    int64_t row_groups = 0;  // groups of rows in a batch entry; a block takes one, in linear_short_rows a warp
    Divisor by_row_groups;
    int64_t time = 0;  // T

    // Sums of GRAD|GATE over time or rows, in the arithmetic's dtype, [batches, partial_time, partial_rows]. Null where
    // the kernel writes a gradient for each element. Where warps share gates it only tells, by not being null, that
    // sums are wanted; they go to `grad_gate`.
    void* partial = nullptr;
    int32_t sum_time = 0, sum_rows = 0;
    int64_t partial_time = 0, partial_rows = 0;

    int32_t in_place = 0;  // whether results take the place of their source

    // How a block's threads are laid out over rows and time.
    int32_t log2_lane_rows = 0;  // lanes side by side in rows (each has V); a warp's other lanes are segments of time
    int32_t log2_warp_rows = 0;  // warps side by side in rows; a block's other warps follow each other in time
    // The look-back of linear_chunked (look_back.cuh): chunks form groups, groups form links.
    int32_t log2_group_chunks = 0;
    int32_t log2_link_groups = 0;
    int32_t log2_fold_rows = 0;  // the fewest rows for which look-back divides its threads: it fixes the association
    int32_t by_sequence = 0;     // linear_chunked: whether each packed sequence is cut into chunks from its own start
    int32_t grouped = 0;         // linear_rows, linear_columns: whether chunks are gathered in groups
    // Chunks of a row; linear_few_long_rows_channels: of a strip; linear_chunked where packed sequences have chunks of
    // their own: the most that they may have together.
    int64_t chunks = 0;
    // Memory through which blocks exchange values. All of its bits are one before a kernel publishes anything. In
    // linear_chunked each array is [count, batches * row_groups, rows of a group]; linear_rows and linear_columns use
    // `carries` alone, linear_few_long_rows_time, linear_few_long_rows_channels and those two with groups of chunks
    // `records` and `carries`.
    void* records = nullptr;  // summaries of chunks
    void* totals = nullptr;   // summaries of look-back groups
    // Carries into links, of which rows and columns have one for each chunk or group of chunks.
    void* carries = nullptr;

    // Kernels whose warps side by side share gates (block_sums.cuh): whether these have neighbouring rows, in place of
    // neighbouring batch entries, and whether no other warps share them, so that sums are GRAD|GATE itself.
    int32_t shared_rows = 0, sums_whole = 0;
};

inline constexpr int reduce_threads = 256;  // of a block of reduce_gate_gradient and find_gate_values
inline constexpr int reduce_bytes = 16;     // of the terms that a thread of reduce_gate_gradient loads at once

// An axis of the terms of GRAD|GATE, or several that lie like one. Strides are in bytes.
struct ReduceAxis {
    int64_t count = 1;
    int64_t terms = 0, gradient = 0, gate = 0;  // strides of the terms and, where it is kept, of GRAD|GATE and GATE
};

// Sums terms of GRAD|GATE, in the arithmetic's dtype, over the axes that the gate is broadcast over. Terms are of the
// gate's value; where gates are given as logs or logits, sums are multiplied with the derivatives.
struct ReduceParams {
    const char* terms = nullptr;
    char* gradient = nullptr;
    const char* gate = nullptr;
    int32_t gate_form = 0;
    ReduceAxis kept[2], summed[2];  // terms of the second ones lie closer
    // How many threads share a sum, and whether they are neighbours, because neighbouring terms belong to it.
    int32_t width = 1, neighbours = 0;
    int32_t pack = 1;  // neighbouring sums of a thread: one, or as many as have terms of reduce_bytes
    // Which kept axis is time and may have steps that belong to no packed sequence, whose gradients are not written; -1
    // where there is none.
    int32_t time_axis = -1;
    SequenceOffsets offsets;
};

// Arguments of find_gate_values: the two axes of gates that are broadcast over the third, the slower one first.
struct GateAxis {
    int64_t count = 1, stride = 0;  // in bytes
};
struct GateValuesParams {
    const char* from = nullptr;
    void* to = nullptr;  // dense, in the arithmetic's dtype
    GateAxis axis[2];
    int32_t gate_form = 0;
};

// Arguments of pass_empty_sequences, which copies the state of sequences without steps.
struct EmptyParams {
    const void* carry_in = nullptr;
    void* carry_out = nullptr;
    SequenceOffsets offsets;
    int64_t channels = 0;
};

}  // namespace flashscan::cuda
