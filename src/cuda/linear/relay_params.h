// SPDX-License-Identifier: Apache-2.0
// What linear_relay is launched with beside LinearParams.
#pragma once

#include "cuda/linear/tensor_maps.h"

namespace flashscan::cuda {

struct RelayParams : TensorMaps {  // a box is a warp's stage
    int ring = 0;                  // stages that a warp has in shared memory
};

}  // namespace flashscan::cuda
