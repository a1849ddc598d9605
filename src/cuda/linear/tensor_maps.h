// SPDX-License-Identifier: Apache-2.0
// Tensor maps of a linear recurrence for the bulk copy engine (the Tensor Memory Accelerator, TMA).
#pragma once

#include <cuda.h>

namespace flashscan::cuda {

// The maps of the tensors of LinearParams, each with the axes rows, time, batch.
struct TensorMaps {
    CUtensorMap gate, source, states, result, grad_gate;
};

}  // namespace flashscan::cuda
