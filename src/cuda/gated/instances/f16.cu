// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for f16 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_f16() { return make_gated_kernels<__half>(); }

}  // namespace flashscan::cuda
