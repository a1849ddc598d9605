// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for bf16 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_bf16() { return make_gated_kernels<__nv_bfloat16>(); }

}  // namespace flashscan::cuda
