// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for bf16 and f16 data. Their code is alike, and what is alike within a file is
// packed once.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_bf16(std::vector<ElementKernels>& table) { add_element_kernels<__nv_bfloat16>(table, Dtype::bf16); }
void add_operator_f16(std::vector<ElementKernels>& table) { add_element_kernels<__half>(table, Dtype::f16); }

}  // namespace flashscan::cuda
