// SPDX-License-Identifier: Apache-2.0
// SEQ_OFFSETS as kernels are launched with it.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// data is null when not packed.
struct SequenceOffsets {
    const void* data = nullptr;
    int64_t sequences = 0;
    int32_t are_i64 = 0, unused = 0;
};

}  // namespace flashscan::cuda
