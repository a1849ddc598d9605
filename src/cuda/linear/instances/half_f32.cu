// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for bf16 and f16 data with f32 gates. Their code is alike, and what is
// alike within a file is packed once.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_bf16_f32() { return make_linear_kernels<__nv_bfloat16, float>(Dtype::bf16, Dtype::f32); }
LinearKernels linear_f16_f32() { return make_linear_kernels<__half, float>(Dtype::f16, Dtype::f32); }

}  // namespace flashscan::cuda
