// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers of few rows for f32 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels with_gated_few_rows_f32(const GatedKernels& kernels) { return with_few_rows<float>(kernels); }

}  // namespace flashscan::cuda
