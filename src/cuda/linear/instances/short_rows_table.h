// SPDX-License-Identifier: Apache-2.0
// The compiled kernels "short_rows", by the dtype of data and gates.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct ShortRowsKernels {
    static constexpr int tiles[2] = {2, 4};  // of a row
    const void* kernel[2][2][2] = {};        // [which of `tiles`][down][backward]
    int steps = 0;                           // of a lane in each tile; 0 where nothing is compiled
};
ShortRowsKernels short_rows_kernels(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
