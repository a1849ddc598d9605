// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for i64 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_i64(std::vector<ElementKernels>& table) { add_number_kernels<int64_t>(table, Dtype::i64); }

}  // namespace flashscan::cuda
