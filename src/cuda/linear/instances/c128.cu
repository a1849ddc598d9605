// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for c128 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c128() { return make_linear_kernels<Complex<double>, Complex<double>>(Dtype::c128, Dtype::c128); }

}  // namespace flashscan::cuda
