// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for c64 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_c64(std::vector<ElementKernels>& table) { add_element_kernels<Complex<float>>(table, Dtype::c64); }

}  // namespace flashscan::cuda
