// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

// Elements of 16 bytes are two in a map.
FLASHSCAN_HD constexpr int map_parts(int64_t element_bytes) { return element_bytes == 16 ? 2 : 1; }

// Of the tensors of LinearParams, for the bulk copy engine: axes rows, time, batch.
struct TensorMaps {
    CUtensorMap gate, source, states, result, grad_gate;
};

}  // namespace flashscan::cuda
