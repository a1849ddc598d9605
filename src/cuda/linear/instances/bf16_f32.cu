// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for bf16 data with f32 gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_bf16_f32() { return make_linear_kernels<__nv_bfloat16, float>(Dtype::bf16, Dtype::f32); }

}  // namespace flashscan::cuda
