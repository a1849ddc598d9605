// SPDX-License-Identifier: Apache-2.0
// The kernel that joins segments to what all steps of a row do to a state: its arguments, and the table of its
// instances.
#pragma once

#include <cstdint>

#include "core/types.h"

namespace flashscan::cuda {

// Segments lie `parts` to a row, of which the first `segments` are gone through.
struct SelectiveEndParams {
    // [row][part][channel][state]: the states that segments leave when they start from zeros. [row][part][channel]: the
    // sums of d over segments, NaN where a reset cuts one.
    const void *ends = nullptr, *deltas = nullptr;
    const void *a = nullptr, *first = nullptr;
    void *last = nullptr, *delta_sums = nullptr;  // null where they are not wanted
    int64_t rows = 0, channels = 0;
    int32_t states = 0, segments = 0, parts = 0;
    int32_t adjoint = 0;  // whether it goes from the last segment to the first
};

// The kernel for states of a type, whose D and sums of d are real numbers of the same precision.
const void* selective_ends_kernel(Dtype matrix_dtype);

}  // namespace flashscan::cuda
