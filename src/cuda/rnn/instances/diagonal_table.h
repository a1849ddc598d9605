// SPDX-License-Identifier: Apache-2.0
// The table of the compiled kernels "diagonal" of recurrent networks, for each cell and dtype.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// A kernel and how many steps it fetches at a time. It is launched with a warp for each 32 units of a row and takes
// RnnDiagonalParams.
struct RnnDiagonalKernel {
    const void* function = nullptr;
    int steps = 0;
};

struct RnnDiagonalKernels {
    int kept = 0;  // numbers of RESERVE for an element and step
    // For few warps, which fetch far ahead, and for many: forward, forward that fills RESERVE, and backward.
    RnnDiagonalKernel deep_forward, deep_training, deep_backward, forward, training, backward;
};

RnnDiagonalKernels rnn_diagonal_kernels(Dtype dtype, Cell cell);

}  // namespace flashscan::cuda
