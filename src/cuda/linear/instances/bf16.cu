// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for bf16 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_bf16() { return make_linear_kernels<__nv_bfloat16, __nv_bfloat16>(Dtype::bf16, Dtype::bf16); }

}  // namespace flashscan::cuda
