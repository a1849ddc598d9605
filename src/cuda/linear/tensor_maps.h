// SPDX-License-Identifier: Apache-2.0
// Tensor maps of a linear recurrence for the bulk copy engine.
#pragma once

#include <cuda.h>

namespace flashscan::cuda {

// Of the tensors of LinearParams, for the bulk copy engine: axes rows, time, batch.
struct TensorMaps {
    CUtensorMap gate, source, states, result, grad_gate;
};

}  // namespace flashscan::cuda
