// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of the linear recurrence for f16 data and gates.
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_f16() { return make_linear_kernels<__half, __half>(Dtype::f16, Dtype::f16); }

}  // namespace flashscan::cuda
