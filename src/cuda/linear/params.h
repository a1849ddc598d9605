// SPDX-License-Identifier: Apache-2.0
// What the linear recurrence kernels are launched with: plain data, no CUDA types.
//
// Rows: a row is one sequence of steps, that is one (batch, channel) pair. The host folds the batch axis into the
// row axis where all strides allow (`batches` is then 1 and `rows` is B * C).
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int relay_most_stages = 8;  // of a relay's ring

struct LinearParams {
    View gate;
    View source;     // forward: INPUT, backward: GRAD|OUTPUT
    View states;     // backward: OUTPUT; null when GRAD|GATE is not wanted
    View result;     // forward: OUTPUT, backward: GRAD|INPUT (may be null)
    View grad_gate;  // backward; may be null

    // The carry at the edges of this launch, [batches, rows]. Forward: STATE_IN and STATE_OUT, backward: GRAD|STATE_OUT
    // and GRAD|STATE_IN; between launches when time is cut.
    const void* edge_in = nullptr;
    void* edge_out = nullptr;
    // The same at the edges of packed sequences, [num_sequences, rows]; null when not packed.
    const void* carry_in = nullptr;
    void* carry_out = nullptr;
    const void* state_in = nullptr;  // backward: h before the first step, [batches or num_sequences, rows]

    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int32_t gate_form = 0, unused = 0;

    int64_t batches = 0, rows = 0;
    int64_t row_groups = 0;  // groups of rows per batch
    Divisor by_row_groups;
    int64_t time = 0;            // T
    int64_t begin = 0, end = 0;  // the steps of this launch; the carry enters and leaves at their edges

    // GRAD|GATE of a broadcast gate. `partial` holds sums in the arithmetic's dtype, [batches, slots of time, slots of
    // rows]; null where the gradient is complete in one block.
    void* partial = nullptr;
    int32_t sum_batch = 0, sum_time = 0, sum_rows = 0;
    int32_t batch_loop = 1;  // batch entries that a block walks one after another, to sum over them
    int64_t partial_time = 0, partial_rows = 0;

    // Chunked kernel only.
    int32_t log2_lane_rows = 0;     // rows (packs of rows) side by side in a warp; its other lanes are segments of time
    int32_t log2_warp_rows = 0;     // warps side by side; the others of a block follow each other in time
    int32_t log2_group_chunks = 0;  // chunks of a look-back group
    int32_t log2_link_groups = 0;   // groups of a link of the carry chain
    int64_t chunks = 0;
    // All bits one before the launch; each is [count, batches * row_groups, rows of a group].
    void* records = nullptr;  // summaries of chunks
    void* totals = nullptr;   // summaries of look-back groups
    void* carries = nullptr;  // carries into links
};

// Sums `partial` over its broadcast axes into GRAD|GATE.
struct ReduceParams {
    const void* partial = nullptr;  // null: no terms
    View grad_gate;                 // strides of the axes that are kept
    int64_t batches = 0, slots_time = 0, slots_rows = 0;
    int64_t slots_stride = 0;  // slots of time that one batch entry has room for
    int32_t sum_batch = 0, sum_time = 0, sum_rows = 0, unused = 0;
    int64_t time_offset = 0;  // step of slot 0
    SequenceOffsets offsets;  // steps past the last sequence are not written
};

// Sequences of no steps pass their state through.
struct EmptyParams {
    const void* carry_in = nullptr;
    void* carry_out = nullptr;
    SequenceOffsets offsets;
    int64_t channels = 0;
};

}  // namespace flashscan::cuda
