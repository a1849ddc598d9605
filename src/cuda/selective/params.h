// SPDX-License-Identifier: Apache-2.0
// What the kernels of selective scans are launched with: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int selective_step_threads = 256;  // of a block of selective_steps

// Null pointers: the argument was not given, or the pass has none such.
struct SelectiveParams {
    View input, delta, gate, output;
    View b, c;  // those of each step; `row` leads from one number of the groups' states to the next
    View grad_output, grad_input, grad_delta, grad_gate;
    const void *a = nullptr, *constant_b = nullptr, *constant_c = nullptr, *d = nullptr, *bias = nullptr;
    const void *state_in = nullptr, *grad_state_out = nullptr;
    void *state_out = nullptr, *grad_state_in = nullptr;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t time = 0, channels = 0, group_channels = 0;
    int32_t states = 0, groups = 0;
    int32_t slices = 0;  // blocks side by side that share the channels of a group
    int32_t softplus = 0, down = 0;
    int32_t alike = 0;  // all tensors but those of B and C have the same strides
    // Segments that the steps of a row are cut into, each of so many steps; what is carried into each, [row][segment] of
    // states; and the sums of d over a segment, [row][segment][channel], NaN where a reset cuts it. 1: none of these.
    int32_t segments = 1;
    int64_t segment_steps = 0;
    void *carries = nullptr, *adjoint_carries = nullptr, *segment_deltas = nullptr;
    // SCRATCH of backward. `kept` holds the states before every shape's `kept` steps, of segments as if they began with
    // zeros; `kept_deltas` the sum of d from the segment's begin, as those of segments. The sums are those of a block, for
    // each row and segment: [row][segment][channel][state] and without states; for each slice: [slice][batch][time][group]
    // [state].
    void* kept_deltas = nullptr;
    void *kept = nullptr, *sum_a = nullptr, *sum_b = nullptr, *sum_c = nullptr, *sum_d = nullptr, *sum_bias = nullptr;
    void *step_b = nullptr, *step_c = nullptr;
    int64_t kept_chunks = 0;  // of a row, where sequences are not packed
};

// Turns what segments leave for zeros into what is carried into each.
struct SelectiveCarryParams {
    void* ends = nullptr;  // [row][segment][channel][state], as params.h has them, and then the carries
    const void *deltas = nullptr, *a = nullptr, *first = nullptr;
    int64_t rows = 0, channels = 0;
    int32_t states = 0, segments = 0;
    int32_t adjoint = 0;  // from the last segment to the first
};

// Adds sums in the order of their parts, and stores them.
struct SelectiveSumParams {
    const void* sums = nullptr;
    int64_t parts = 0, numbers = 0;  // the numbers of a part
    void* result = nullptr;          // dense; null: `steps`
    View steps;
    SequenceOffsets offsets;  // of the sequences whose steps are written
    int64_t time = 0;
    int32_t width = 0;  // numbers of a step
};

}  // namespace flashscan::cuda
