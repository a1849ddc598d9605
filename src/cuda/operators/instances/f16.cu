// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for f16 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_f16(std::vector<ElementKernels>& table) { add_element_kernels<__half>(table, Dtype::f16); }

}  // namespace flashscan::cuda
