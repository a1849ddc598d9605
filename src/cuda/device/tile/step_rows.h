// SPDX-License-Identifier: Apache-2.0
// Parameters of kernels for few steps, as in decoding, that do not depend on the family. They are plain data without
// CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

// The places of a call's states. Kernels read and write the states there, so that no launch copies them.
struct StateRows {
    const char* in = nullptr;  // null where the argument was not given
    char* out = nullptr;
    int64_t in_step = 0, out_step = 0;  // bytes from one row to the next
    const int32_t* indices = nullptr;   // the rows of the pools that are meant; null where the states are no pools
    int64_t rows = 0;                   // rows in memory
};

// A thread has a pack of V channels of one row: neighbours that lie aligned in every tensor if `whole`, else channels
// that are `packs` apart, so that the threads of a warp still access neighbours.
struct StepParams {
    StateRows states;
    uint32_t threads = 0, packs = 0;  // the packs of all rows, and those of one
    Divisor by_packs;
    int32_t whole = 0;
};

inline constexpr int step_threads = 128;  // the most threads of a block

}  // namespace flashscan::cuda
