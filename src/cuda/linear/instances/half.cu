// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for bf16 and f16 data and gates. Their code is alike, and what is alike
// within a file is packed once.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_bf16() { return make_linear_kernels<__nv_bfloat16, __nv_bfloat16>(Dtype::bf16, Dtype::bf16); }
LinearKernels linear_f16() { return make_linear_kernels<__half, __half>(Dtype::f16, Dtype::f16); }

}  // namespace flashscan::cuda
