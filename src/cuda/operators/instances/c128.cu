// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for c128 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_c128(std::vector<ElementKernels>& table) { add_element_kernels<Complex<double>>(table, Dtype::c128); }

}  // namespace flashscan::cuda
