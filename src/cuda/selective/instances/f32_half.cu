// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for f32, bf16 and f16 data. Their code is alike, and what is alike within a
// file is packed once.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f32() { return make_selective_kernels<float, float>(); }
SelectiveKernels selective_bf16() { return make_selective_kernels<__nv_bfloat16, float>(); }
SelectiveKernels selective_f16() { return make_selective_kernels<__half, float>(); }

}  // namespace flashscan::cuda
