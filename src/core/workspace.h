// SPDX-License-Identifier: Apache-2.0
// A ledger of the sub-buffers of SCRATCH: booked when a plan is made, found at their offsets in every call.
#pragma once

#include <cstddef>

#include "core/extent.h"
#include "core/rounding.h"

namespace flashscan {

inline constexpr size_t workspace_alignment = 256;

class Workspace {
  public:
    // The offset of a new sub-buffer of `bytes`. Throws Error{size_overflow} when there would be too many.
    size_t book(Extent bytes) {
        const auto offset = static_cast<size_t>(bytes_);
        bytes_ += round_up(bytes, workspace_alignment);
        return offset;
    }
    size_t bytes() const { return static_cast<size_t>(bytes_); }

  private:
    Extent bytes_{0, "SCRATCH"};
};

}  // namespace flashscan
