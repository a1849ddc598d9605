// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for f32 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_f32() { return make_gated_kernels<float>(); }

}  // namespace flashscan::cuda
