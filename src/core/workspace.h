// SPDX-License-Identifier: Apache-2.0
// The layout of SCRATCH: sub-buffers are given offsets when a plan is made, and every call finds them at these offsets.
#pragma once

#include <cstddef>

#include "core/extent.h"
#include "core/rounding.h"

namespace flashscan {

inline constexpr size_t workspace_alignment = 256;

class Workspace {
  public:
    // Adds a sub-buffer of `bytes` bytes and returns its offset. Throws Error{size_overflow} when there would be too
    // many.
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
