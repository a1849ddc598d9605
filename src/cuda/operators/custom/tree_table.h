// SPDX-License-Identifier: Apache-2.0
// The kernels of custom operators that are compiled with the library.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct TreeKernels {
    const void *first, *last, *gather;
    const void *enter, *add;  // these compute with gradients
};
// `dtype`, f32 or f64, is that of the numbers of gradients.
TreeKernels tree_kernels(Dtype dtype);

}  // namespace flashscan::cuda
