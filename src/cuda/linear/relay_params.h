// SPDX-License-Identifier: Apache-2.0
// What linear_relay is launched with beside LinearParams.
#pragma once

#include "cuda/linear/tensor_maps.h"

namespace flashscan::cuda {

// A box of the tensor maps is a tensor's part of one warp's stage.
struct RelayParams : TensorMaps {
    int ring = 0;  // stages in the ring buffer that each warp has in shared memory
};

}  // namespace flashscan::cuda
