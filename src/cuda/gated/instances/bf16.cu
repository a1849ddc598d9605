// SPDX-License-Identifier: Apache-2.0
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels gated_bf16() { return make_gated_kernels<__nv_bfloat16>(); }

}  // namespace flashscan::cuda
