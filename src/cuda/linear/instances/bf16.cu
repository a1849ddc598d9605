// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_bf16() { return make_linear_kernels<__nv_bfloat16, __nv_bfloat16>(Dtype::bf16, Dtype::bf16); }

}  // namespace flashscan::cuda
