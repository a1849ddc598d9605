// SPDX-License-Identifier: Apache-2.0
// Kernels read and write dense states. States with strides, and those that lie in a pool, are copied into SCRATCH before a
// kernel and out of it after.
#pragma once

#include <string>
#include <vector>

#include "core/arguments.h"

namespace flashscan {

// `count` rows of `bytes`, at `from + i * from_step` and `to + i * to_step`; steps in bytes. On a side that has indices,
// row indices[i] of `pool_rows` stands in the place of row i; a negative one reads as zeros and is not written.
struct RowCopy {
    void* to = nullptr;
    int64_t to_step = 0;
    const void* from = nullptr;
    int64_t from_step = 0;
    int64_t bytes = 0, count = 0;
    const int32_t *to_indices = nullptr, *from_indices = nullptr;
    int64_t pool_rows = 0;
};

// The states of one pass that kernels cannot have as they lie.
class StridedStates {
  public:
    StridedStates() = default;
    // Enlarges SCRATCH, the last of `specs`, by the dense copies.
    StridedStates(std::vector<ArgumentSpec>& specs, const Sequences& sequences);

    bool none() const { return states_.empty(); }
    // Their names.
    std::string describe() const;
    // Puts the copies in the place of the states that are given.
    Pointers in_scratch(const Pointers& given, void* scratch) const;
    // Between the caller's states and the copies: those that the pass reads, or those that it wrote.
    std::vector<RowCopy> copies(const Pointers& given, void* scratch, bool written) const;

  private:
    struct State {
        int32_t id;
        const char* name;
        bool written, indexed;
        size_t offset;                      // in SCRATCH
        int64_t row_bytes, rows, row_step;  // steps in bytes
        int64_t states, state_step;
    };
    std::vector<State> states_;
    int64_t pool_rows_ = 0;
};

}  // namespace flashscan
