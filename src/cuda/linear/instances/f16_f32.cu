// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for f16 data with f32 gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_f16_f32() { return make_linear_kernels<__half, float>(Dtype::f16, Dtype::f32); }

}  // namespace flashscan::cuda
