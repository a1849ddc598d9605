// SPDX-License-Identifier: Apache-2.0
// What linear_relay is launched with beside LinearParams.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

// Elements of 16 bytes are two in a map.
FLASHSCAN_HD constexpr int map_parts(int64_t element_bytes) { return element_bytes == 16 ? 2 : 1; }

// Maps of the tensors of LinearParams, axes rows, time, batch; a box is a warp's stage.
struct RelayParams {
    CUtensorMap gate, source, states, result, grad_gate;
    int ring = 0;  // stages that a warp has in shared memory
};

}  // namespace flashscan::cuda
