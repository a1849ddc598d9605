// SPDX-License-Identifier: Apache-2.0
// Arguments of the backward kernels of operators on numbers and on tiny matrices, and of both of tiny affine maps:
// plain data.
#pragma once

#include "cuda/device/scan/element_params.h"

namespace flashscan::cuda {

// Pointers to gradients and states are null where a call does not have them.
struct NumbersBackwardParams {
    ElementGrid grid;
    const void* input = nullptr;         // null for ADD
    const void* grad_output = nullptr;   // GRAD|OUTPUT of a scan
    const void* grad_reduced = nullptr;  // GRAD|OUTPUT of a reduction
    const void* grad_state_out = nullptr;
    const void* state_in = nullptr;
    const void* marks =
        nullptr;  // the carries into the chunks of the scan, in its order; null where there is one chunk
    void* grad_input = nullptr;
    void* grad_state_in = nullptr;
    int32_t mode = 0;  // an ElementMode
    int32_t kind = 0;
};

struct TinyBackwardParams {
    ElementGrid grid;
    const void* input = nullptr;
    const void* before = nullptr;        // y[t-1] or y[t], as `prefix` says; null where GRAD|INPUT is not wanted
    const void* grad_output = nullptr;   // GRAD|OUTPUT of a scan
    const void* grad_reduced = nullptr;  // GRAD|OUTPUT of a reduction
    const void* grad_state_out = nullptr;
    const void* state_in = nullptr;
    void* grad_input = nullptr;
    void* grad_state_in = nullptr;
    int32_t mode = 0;    // an ElementMode
    int32_t prefix = 0;  // a PrefixKind
};

// TinyBackwardParams::before holds one of these.
enum PrefixKind {
    prefix_inclusive = 0,  // y[t]: OUTPUT of an inclusive scan
    prefix_exclusive = 1,  // y[t-1]: OUTPUT of an exclusive scan
    prefix_wide = 2        // y[t-1] in the format of states
};

// Affine maps in either pass: r = M r + u, where M is GATE or its conjugate transpose, r the states or their gradients.
struct TinyAffineParams {
    ElementGrid grid;
    const void* gate = nullptr;
    const void* added = nullptr;          // u: INPUT; backward GRAD|OUTPUT of a scan
    void* emitted = nullptr;              // OUTPUT of a scan; GRAD|INPUT
    const void* start = nullptr;          // STATE_IN; GRAD|STATE_OUT
    void* final = nullptr;                // STATE_OUT; GRAD|STATE_IN
    void* reduced = nullptr;              // forward: OUTPUT of a reduction
    void* prefixes = nullptr;             // forward: y[t-1] of every step, in the format of states
    const void* start_reduced = nullptr;  // backward: GRAD|OUTPUT of a reduction
    void* grad_gate = nullptr;            // backward
    const void* before = nullptr;         // backward: y[t-1] or y[t], as `prefix` says, for GRAD|GATE
    const void* state_in = nullptr;       // backward: STATE_IN, for GRAD|GATE
    int32_t mode = 0;                     // an ElementMode
    int32_t prefix = 0;                   // a PrefixKind
};

// Rows and sequences without steps: the gradient of their final state is that of their initial state.
struct EmptyGradientParams {
    SequenceOffsets offsets;  // where it is not given, no row has steps
    int64_t numbers = 0;      // numbers of all states
    int64_t row_numbers = 0;  // numbers of the states of a sequence
    const void* grad_reduced = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_state_in = nullptr;
};

}  // namespace flashscan::cuda
