// SPDX-License-Identifier: Apache-2.0
// The table of the compiled kernels "newton" of recurrent networks, for each cell but sLSTM and each dtype but f64. They
// take RnnNewtonParams.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

const void* rnn_newton_kernel(Dtype dtype, Cell cell);

}  // namespace flashscan::cuda
