// SPDX-License-Identifier: Apache-2.0
// States with strides, and states in a pool. Most kernels read and write dense states, so these are copied to SCRATCH
// before a kernel and from it after.
#pragma once

#include <string>
#include <vector>

#include "core/arguments.h"

namespace flashscan {

// A copy of `count` rows of `bytes` bytes each, from `from + i * from_step` to `to + i * to_step`, with steps in bytes.
// A side that has indices is a pool of `pool_rows` rows, of which row indices[i] is used in place of row i. A row with
// a negative index is read as zeros and is not written.
struct RowCopy {
    void* to = nullptr;
    int64_t to_step = 0;
    const void* from = nullptr;
    int64_t from_step = 0;
    int64_t bytes = 0, count = 0;
    const int32_t *to_indices = nullptr, *from_indices = nullptr;
    int64_t pool_rows = 0;
};

// The states of one pass that have to be copied because they are not dense.
class StridedStates {
  public:
    StridedStates() = default;
    // Finds those states among `specs`, and enlarges SCRATCH, the last of `specs`, by their dense copies.
    StridedStates(std::vector<ArgumentSpec>& specs, const Sequences& sequences);

    bool none() const { return states_.empty(); }
    // Returns the names of the states.
    std::string describe() const;
    // Returns `given` with pointers to the copies in place of the states.
    Pointers in_scratch(const Pointers& given, void* scratch) const;
    // Returns the copies to make: without `written` to scratch of the states that the pass reads, and with it from
    // scratch of those that it wrote.
    std::vector<RowCopy> copies(const Pointers& given, void* scratch, bool written) const;

  private:
    struct State {
        int32_t id;
        const char* name;
        bool written, indexed;
        size_t offset;                      // of the dense copy in SCRATCH
        int64_t row_bytes, rows, row_step;  // row_step and state_step are in bytes
        int64_t states, state_step;
    };
    std::vector<State> states_;
    int64_t pool_rows_ = 0;
};

}  // namespace flashscan
