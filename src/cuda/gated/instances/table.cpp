// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share one.
#include "cuda/gated/instances/table.h"

namespace flashscan::cuda {

const GatedKernels& gated_kernels(Dtype dtype) {
    static const GatedKernels f32 = gated_f32(), bf16 = gated_bf16(), f16 = gated_f16(), f64 = gated_f64();
    if (dtype == Dtype::bf16) return bf16;
    if (dtype == Dtype::f16) return f16;
    return dtype == Dtype::f64 ? f64 : f32;
}

}  // namespace flashscan::cuda
