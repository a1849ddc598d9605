// SPDX-License-Identifier: Apache-2.0
// SEQ_OFFSETS as an argument of kernels.
#pragma once

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

// `data` is null where sequences are not packed. Offsets are not trusted: wrong ones give wrong results, but no access
// outside of a call's arrays.
struct SequenceOffsets {
    const void* data = nullptr;
    int64_t sequences = 0, time = 0;
    int32_t are_i64 = 0;
    // Whether the host has reversed the tensors in time, for a kernel that walks in one direction only: they begin with
    // their last steps and have negative strides of time. The kernel's step t is step time - 1 - t of SEQ_OFFSETS and
    // RESET.
    int32_t mirrored = 0;

    // Offset n as it is in memory. It may only be compared with steps that exist.
    FLASHSCAN_HD int64_t given(int64_t n) const {
        return are_i64 ? static_cast<const int64_t*>(data)[n]
                       : static_cast<int64_t>(static_cast<const int32_t*>(data)[n]);
    }
    // Offset n, clamped to 0 to `time`. It may still be less than the one before it.
    FLASHSCAN_HD int64_t at(int64_t n) const {
        const int64_t offset = given(n);
        return offset < 0 ? 0 : offset < time ? offset : time;
    }
    // The first in the order of memory of the kernel's `steps` steps from step t on.
    FLASHSCAN_HD int64_t in_memory(int64_t t, int64_t steps = 1) const { return mirrored != 0 ? time - t - steps : t; }
};

}  // namespace flashscan::cuda
