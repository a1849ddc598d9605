// SPDX-License-Identifier: Apache-2.0
// Checks of the integers that a call is given. An empty list stands for integers that the backend did not read, and
// passes.
#pragma once

#include <cstdint>
#include <vector>

namespace flashscan {

// Throws Error unless SEQ_OFFSETS begin with 0, do not decrease, and end at `time` or before.
void check_offsets(const std::vector<int64_t>& offsets, int64_t time);

// Throws Error unless each of STATE_INDICES is -1 or a row of a pool of `rows`, and, if rows are written, no row occurs
// twice.
void check_state_indices(const std::vector<int64_t>& indices, int64_t rows, bool written);

}  // namespace flashscan
