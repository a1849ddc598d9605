// SPDX-License-Identifier: Apache-2.0
// The bulk copy engine's maps of the tensors whose View::bulk is set.
#pragma once

#include <cuda.h>

namespace flashscan::cuda {

struct LinearMaps {
    CUtensorMap gate, source, states, result, grad_gate;
};

}  // namespace flashscan::cuda
