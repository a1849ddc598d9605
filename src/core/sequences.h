// SPDX-License-Identifier: Apache-2.0
// What every family has in common: rows of a batch walked in time, packed sequences in one row, resets.
#pragma once

#include <string>

#include "core/extent.h"
#include "core/types.h"

namespace flashscan {

// The strides of a state, in elements: from one row to the next, and from one of a cell's states to the next. Rows are
// dense.
struct StateStrides {
    Extent row, state;
};

// The extents of the states of one problem: `states` times `rows` rows of `width` elements.
struct StateExtents {
    Extent states, rows, width;
};

struct Sequences {
    Direction direction{};
    bool has_reset = false;
    Extent batch, time;
    Extent num_sequences;  // 0: the sequences are not packed
    Dtype offsets_dtype = Dtype::i64;
    Extent state_pool;  // STATE_IN and STATE_OUT are pools of so many rows; 0: they are not pools
    StateStrides state_in, state_out, grad_state_in, grad_state_out;

    bool packed() const { return num_sequences > 0; }
    bool pooled() const { return state_pool > 0; }
    // The rows of the states that a call works on. Where STATE_IN and STATE_OUT are pools, they have state_pool rows in
    // memory.
    Extent state_rows() const { return packed() ? num_sequences : batch; }
};

// Checks field by field and fills in offsets_dtype. Throws Error naming the field, its value and what is accepted.
void validate_sequences(Sequences& sequences);

// Checks that `inner` values of `bytes` bytes for each step, and for each state and offset, do not overflow a size.
// `what` is the name of the steps' size in the Error. An extent of 0 counts as 1.
void check_steps(const Sequences& sequences, Extent inner, Extent bytes, const char* what);

// Fills in the strides of the states that are left at zero and checks the others, so that no two elements of a state
// share memory. `bytes` are those of an element.
void settle_states(Sequences& sequences, const StateExtents& extents, Extent bytes);

// Returns text like " reverse reset sequences7 pool9", without the words that do not apply.
std::string describe_sequences(const Sequences& sequences);

}  // namespace flashscan
