// SPDX-License-Identifier: Apache-2.0
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_f64() { return make_gated_kernels<double>(); }

}  // namespace flashscan::cuda
