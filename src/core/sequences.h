// SPDX-License-Identifier: Apache-2.0
// What every family has in common: rows of a batch walked in time, packed sequences in one row, resets.
#pragma once

#include <string>

#include "core/extent.h"
#include "core/types.h"

namespace flashscan {

struct Sequences {
    Direction direction{};
    bool has_reset = false;
    Extent batch, time;
    Extent num_sequences;  // 0: not packed
    Dtype offsets_dtype = Dtype::i64;

    bool packed() const { return num_sequences > 0; }
    // Rows of STATE_IN and STATE_OUT.
    Extent state_rows() const { return packed() ? num_sequences : batch; }
};

// Checks field by field and fills in offsets_dtype. Throws Error.
void validate_sequences(Sequences& sequences);

// Checks that `inner` values of `bytes` fit for every step, and for every state and offset; `what` names the steps'. An
// extent of 0 does not make the others fit.
void check_steps(const Sequences& sequences, Extent inner, Extent bytes, const char* what);

// " reverse reset sequences7", or less.
std::string describe_sequences(const Sequences& sequences);

}  // namespace flashscan
