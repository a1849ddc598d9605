// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for c64 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c64() { return make_linear_kernels<Complex<float>, Complex<float>>(Dtype::c64, Dtype::c64); }

}  // namespace flashscan::cuda
