// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for f32 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_f32() { return make_linear_kernels<float, float>(Dtype::f32, Dtype::f32); }

}  // namespace flashscan::cuda
