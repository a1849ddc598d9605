// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_i32(std::vector<ElementKernels>& table) { add_number_kernels<int32_t>(table, Dtype::i32); }

}  // namespace flashscan::cuda
