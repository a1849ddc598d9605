// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for f32 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_f32(std::vector<ElementKernels>& table) { add_element_kernels<float>(table, Dtype::f32); }

}  // namespace flashscan::cuda
