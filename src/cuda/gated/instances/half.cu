// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for bf16 and f16 data. Their code is alike, and what is alike within a file is
// packed once.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_bf16() { return make_gated_kernels<__nv_bfloat16>(); }
GatedKernels gated_f16() { return make_gated_kernels<__half>(); }

}  // namespace flashscan::cuda
