// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for f64 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_f64() { return make_gated_kernels<double>(); }

}  // namespace flashscan::cuda
