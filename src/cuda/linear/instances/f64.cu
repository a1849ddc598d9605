// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for f64 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_f64() { return make_linear_kernels<double, double>(Dtype::f64, Dtype::f64); }

}  // namespace flashscan::cuda
