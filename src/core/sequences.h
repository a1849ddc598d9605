// SPDX-License-Identifier: Apache-2.0
// What every family has in common: rows of a batch walked in time, packed sequences in one row, resets.
#pragma once

#include <string>

#include "core/extent.h"
#include "core/types.h"

namespace flashscan {

// Elements from one row of a state to the next, and from one of a cell's states to the next; what lies in a row is dense.
struct StateStrides {
    Extent row, state;
};

// Rows of the states of one problem: `width` elements each, `states` times.
struct StateExtents {
    Extent states, rows, width;
};

struct Sequences {
    Direction direction{};
    bool has_reset = false;
    Extent batch, time;
    Extent num_sequences;  // 0: not packed
    Dtype offsets_dtype = Dtype::i64;
    Extent state_pool;  // rows of the pools that STATE_IN and STATE_OUT are; 0: none
    StateStrides state_in, state_out, grad_state_in, grad_state_out;

    bool packed() const { return num_sequences > 0; }
    bool pooled() const { return state_pool > 0; }
    // Rows of the states that a call works on. In memory STATE_IN and STATE_OUT have those of their pool.
    Extent state_rows() const { return packed() ? num_sequences : batch; }
};

// Checks field by field and fills in offsets_dtype. Throws Error.
void validate_sequences(Sequences& sequences);

// Checks that `inner` values of `bytes` fit for every step, and for every state and offset; `what` names the steps'. An
// extent of 0 does not make the others fit.
void check_steps(const Sequences& sequences, Extent inner, Extent bytes, const char* what);

// Fills in the strides of the states that are left at zero and checks the others, so that no two elements of a state
// share memory. `bytes` are those of an element.
void settle_states(Sequences& sequences, const StateExtents& extents, Extent bytes);

// " reverse reset sequences7 pool9", or less.
std::string describe_sequences(const Sequences& sequences);

}  // namespace flashscan
