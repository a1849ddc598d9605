// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of operators for f64 data.
#include "cuda/operators/instances/instance.cuh"

namespace flashscan::cuda {

void add_operator_f64(std::vector<ElementKernels>& table) { add_element_kernels<double>(table, Dtype::f64); }

}  // namespace flashscan::cuda
