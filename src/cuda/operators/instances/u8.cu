// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for u8 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_u8(std::vector<ElementKernels>& table) { add_number_kernels<uint8_t>(table, Dtype::u8); }

}  // namespace flashscan::cuda
