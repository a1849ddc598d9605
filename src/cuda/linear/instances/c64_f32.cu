// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for c64 data with f32 gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c64_f32() { return make_linear_kernels<Complex<float>, float>(Dtype::c64, Dtype::f32); }

}  // namespace flashscan::cuda
