// SPDX-License-Identifier: Apache-2.0
// Parameters and table of the kernel of selective.cuh: plain data, no CUDA types.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// enter_selective: finds the state that enters this rank, or the gradient of the state that leaves it, from the
// gathered messages of all ranks.
struct RankSelectiveParams {
    // The first rank's states after its steps, [row][channel][state], and its sums of d, [row][channel].
    const char *ends = nullptr, *deltas = nullptr;
    int64_t message_step = 0;  // bytes from one rank's message to the next
    const void* a = nullptr;   // A
    void* carry = nullptr;
    int64_t numbers = 0, row_numbers = 0;  // states of all rows, and of one
    // The `count` ranks before this one in the order of the pass, from `first` on in steps of 1 or -1.
    int32_t first = 0, count = 0, step = 1;
    int32_t states = 0, adjoint = 0, unused = 0;
};

// The kernel for states of a type.
const void* enter_selective_kernel(Dtype matrix_dtype);

}  // namespace flashscan::cuda
