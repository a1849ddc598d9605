// SPDX-License-Identifier: Apache-2.0
// What every family has in common: rows of a batch walked in time, packed sequences in one row, resets.
#pragma once

#include <string>

#include "core/types.h"

namespace flashscan {

struct Sequences {
    Direction direction{};
    bool has_reset = false;
    int64_t batch = 0, time = 0;
    int64_t num_sequences = 0;  // 0: not packed
    Dtype offsets_dtype = Dtype::i64;

    bool packed() const { return num_sequences > 0; }
    // Rows of STATE_IN and STATE_OUT.
    int64_t state_rows() const { return packed() ? num_sequences : batch; }
};

// Checks field by field and fills in offsets_dtype. Throws Error.
void validate_sequences(Sequences& sequences);

// " reverse reset sequences7", or less.
std::string describe_sequences(const Sequences& sequences);

}  // namespace flashscan
