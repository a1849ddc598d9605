// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for c128 data with f64 gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c128_f64() { return make_linear_kernels<Complex<double>, double>(Dtype::c128, Dtype::f64); }

}  // namespace flashscan::cuda
