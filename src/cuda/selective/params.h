// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of selective scans: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/step_rows.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int selective_step_threads = 256;  // the most threads of a block of selective_decode

// Pointers are null where the argument was not given, or where the pass has no such argument.
struct SelectiveParams {
    View input, delta, gate, output;
    View b, c;  // B and C if each step has its own; `row` is the stride between the numbers of a step, [groups, states]
    View grad_output, grad_input, grad_delta, grad_gate;
    const void *a = nullptr, *constant_b = nullptr, *constant_c = nullptr, *d = nullptr, *bias = nullptr;
    const void *state_in = nullptr, *grad_state_out = nullptr;
    void *state_out = nullptr, *grad_state_in = nullptr;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t time = 0, channels = 0, group_channels = 0;
    int32_t states = 0, groups = 0;
    int32_t slices = 0;  // how many blocks divide the channels of a group
    int32_t softplus = 0, down = 0;
    int32_t alike = 0;  // whether all tensors but those of B and C have the same strides, and so have B and C
    // The segments that the steps of a row are cut into, and the steps of each; the carries into segments,
    // [row][segment][channel][state]; and the sums of d over segments, [row][segment][channel], NaN where a reset cuts
    // a segment. With one segment the arrays are not used.
    int32_t segments = 1;
    int64_t segment_steps = 0;
    void *carries = nullptr, *adjoint_carries = nullptr, *segment_deltas = nullptr;
    // SCRATCH of backward. `kept` holds checkpoints: the states before every Shape::kept_steps steps, in segments as if
    // those began with zeros; `kept_deltas` holds the sum of d from the segment's begin to a checkpoint. sum_a, sum_b
    // and sum_c are a block's sums, [row][segment][channel][state]; sum_d and sum_bias are [row][segment][channel];
    // step_b and step_c are [slice][batch][time][group][state].
    void* kept_deltas = nullptr;
    void *kept = nullptr, *sum_a = nullptr, *sum_b = nullptr, *sum_c = nullptr, *sum_d = nullptr, *sum_bias = nullptr;
    void *step_b = nullptr, *step_c = nullptr;
    int64_t kept_chunks = 0;  // checkpoints of a row, where sequences are not packed
    int64_t kept_lanes = 0;   // lanes whose states a checkpoint has, of all channels
};

// Arguments of selective_decode beside those above.
struct SelectiveStepParams {
    StateRows states;
    Divisor by_slices, by_group_channels;
    uint32_t rows = 0;
    // Whether every lane has all of its states, and these and B and C of a step lie so that they are loaded at once.
    int32_t whole = 0;
};

// Arguments of the kernel that turns the states that segments leave into the carries into them.
struct SelectiveCarryParams {
    void* ends = nullptr;  // [row][segment][channel][state]: the states that segments leave, replaced by the carries
    const void *deltas = nullptr, *a = nullptr, *first = nullptr;
    int64_t rows = 0, channels = 0;
    int32_t states = 0, segments = 0;
    int32_t adjoint = 0;  // whether it goes from the last segment to the first
};

// Arguments of the kernel that adds the parts of sums in order and stores the results.
struct SelectiveSumParams {
    const void* sums = nullptr;
    int64_t parts = 0, numbers = 0;  // parts, and numbers of each
    void* result = nullptr;          // a dense array of results; where it is null they go to `steps`
    View steps;
    SequenceOffsets offsets;  // only steps of these sequences are written
    int64_t time = 0;
    int32_t width = 0;  // numbers of a step in `steps`
};

}  // namespace flashscan::cuda
