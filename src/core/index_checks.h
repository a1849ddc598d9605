// SPDX-License-Identifier: Apache-2.0
// Checks of the integers that a call is given. An empty list is one that the backend does not look at.
#pragma once

#include <cstdint>
#include <vector>

namespace flashscan {

// SEQ_OFFSETS: they begin with 0, do not decrease, and end at `time` or before. Throws Error.
void check_offsets(const std::vector<int64_t>& offsets, int64_t time);

// STATE_INDICES: each is -1 or a row of a pool of `rows`, and one row for each if rows are written. Throws Error.
void check_state_indices(const std::vector<int64_t>& indices, int64_t rows, bool written);

}  // namespace flashscan
