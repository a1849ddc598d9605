// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c64() { return make_linear_kernels<Complex<float>, Complex<float>>(Dtype::c64, Dtype::c64); }

}  // namespace flashscan::cuda
