// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for bf16 data.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_bf16() { return make_selective_kernels<__nv_bfloat16, float>(); }

}  // namespace flashscan::cuda
