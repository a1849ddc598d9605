// SPDX-License-Identifier: Apache-2.0
// A ledger of the sub-buffers of SCRATCH: booked when a plan is made, found at their offsets in every call.
#pragma once

#include <cstddef>

#include "core/rounding.h"

namespace flashscan {

inline constexpr size_t workspace_alignment = 256;

class Workspace {
  public:
    // The offset of a new sub-buffer of `bytes`.
    size_t book(size_t bytes) {
        const size_t offset = bytes_;
        bytes_ += round_up(bytes, workspace_alignment);
        return offset;
    }
    size_t bytes() const { return bytes_; }

  private:
    size_t bytes_ = 0;
};

}  // namespace flashscan
