// SPDX-License-Identifier: Apache-2.0
#include "cuda/instances/operator_instance.cuh"

namespace flashscan::cuda {

void add_operator_f32(std::vector<ElementKernels>& table) { add_element_kernels<float>(table, Dtype::f32); }

}  // namespace flashscan::cuda
