// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of one rank of several, with one entry for each pair of data and gate dtype.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct RankKernels {
    const void* summarise[2][2];  // [time innermost][backward]
    const void* close;
    const void* enter;
};

// The entry of a pair; every pair that core accepts has one. There are no kernels for integers.
RankKernels rank_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
