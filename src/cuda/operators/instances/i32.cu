// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for i32 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_i32(std::vector<ElementKernels>& table) { add_number_kernels<int32_t>(table, Dtype::i32); }

}  // namespace flashscan::cuda
