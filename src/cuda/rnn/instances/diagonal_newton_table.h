// SPDX-License-Identifier: Apache-2.0
// The table of the compiled kernels "diagonal_newton" of recurrent networks, for each cell but sLSTM and each dtype but
// f64.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct RnnNewtonKernels {
    const void* forward = nullptr;  // takes RnnNewtonParams
    // Before "diagonal" runs backward in segments: their maps, a warp each, and the carries, a thread for each unit of
    // a row. They take RnnDiagonalParams.
    const void *maps = nullptr, *carries = nullptr;
};

RnnNewtonKernels rnn_newton_kernels(Dtype dtype, Cell cell);

}  // namespace flashscan::cuda
