// SPDX-License-Identifier: Apache-2.0
// The table of the compiled kernels "decode" of recurrent networks.
#pragma once

#include "core/types.h"
#include "cuda/rnn/decode/params.h"

namespace flashscan::cuda {

// The kernel for states that lie in pools or not; null where there is none. It takes RnnStepParams.
const void* rnn_step_kernel(Dtype dtype, Dtype weight_dtype, Cell cell, bool pooled, RnnStepWay way);

}  // namespace flashscan::cuda
