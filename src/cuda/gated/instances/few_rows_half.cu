// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers of few rows for bf16 and f16 data.
#include "cuda/gated/instances/instance.cuh"

namespace flashscan::cuda {

GatedKernels with_gated_few_rows_bf16(const GatedKernels& kernels) { return with_few_rows<__nv_bfloat16>(kernels); }
GatedKernels with_gated_few_rows_f16(const GatedKernels& kernels) { return with_few_rows<__half>(kernels); }

}  // namespace flashscan::cuda
