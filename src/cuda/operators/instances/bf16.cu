// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for bf16 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_bf16(std::vector<ElementKernels>& table) { add_element_kernels<__nv_bfloat16>(table, Dtype::bf16); }

}  // namespace flashscan::cuda
