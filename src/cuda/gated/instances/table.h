// SPDX-License-Identifier: Apache-2.0
// The kernels of gated layers that are compiled, as addresses.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct GatedPass {
    const void* kernel = nullptr;
    int threads = 0, steps = 0, channels = 0;  // of a block
};
struct GatedKernels {
    GatedPass forward[2], backward[2];  // with channels or time innermost
    const void* steps = nullptr;        // forward over few steps
    const void *pass_states = nullptr, *sums = nullptr;
};

GatedKernels gated_f32();
GatedKernels gated_bf16();
GatedKernels gated_f16();
GatedKernels gated_f64();

// Those of data of `dtype`.
const GatedKernels& gated_kernels(Dtype dtype);

}  // namespace flashscan::cuda
