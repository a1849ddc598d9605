// SPDX-License-Identifier: Apache-2.0
// What backward of operators on numbers and on tiny matrices is launched with: plain data.
#pragma once

#include "cuda/device/scan/element_params.h"

namespace flashscan::cuda {

// Pointers that may be null: those of gradients and states that a call does not have.
struct NumbersBackwardParams {
    ElementGrid grid;
    const void* input = nullptr;         // null for ADD
    const void* grad_output = nullptr;   // of a scan
    const void* grad_reduced = nullptr;  // GRAD|OUTPUT of a reduction
    const void* grad_state_out = nullptr;
    const void* state_in = nullptr;
    const void* marks = nullptr;  // of the chunks of the scan, in its order; null where there is one chunk
    void* grad_input = nullptr;
    void* grad_state_in = nullptr;
    int32_t mode = 0;  // ElementMode
    int32_t kind = 0;
};

struct TinyBackwardParams {
    ElementGrid grid;
    const void* input = nullptr;
    const void* before = nullptr;        // y[t-1] or y[t], by `prefix`; null where GRAD|INPUT is not wanted
    const void* grad_output = nullptr;   // of a scan
    const void* grad_reduced = nullptr;  // GRAD|OUTPUT of a reduction
    const void* grad_state_out = nullptr;
    const void* state_in = nullptr;
    void* grad_input = nullptr;
    void* grad_state_in = nullptr;
    int32_t mode = 0;    // ElementMode
    int32_t prefix = 0;  // PrefixKind
};

// What `before` holds.
enum PrefixKind {
    prefix_inclusive = 0,  // OUTPUT of an inclusive scan
    prefix_exclusive = 1,  // OUTPUT of an exclusive one
    prefix_wide = 2        // the same as states hold it
};

// Sequences and rows of no steps: what enters their end leaves at their beginning.
struct EmptyGradientParams {
    SequenceOffsets offsets;  // not packed: all rows have no steps
    int64_t numbers = 0;      // of all states
    int64_t row_numbers = 0;  // of the states of a sequence
    const void* grad_reduced = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_state_in = nullptr;
};

}  // namespace flashscan::cuda
