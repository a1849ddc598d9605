// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/instances/instance.cuh"

namespace flashscan::cuda {

LinearKernels linear_c64_f32() { return make_linear_kernels<Complex<float>, float>(Dtype::c64, Dtype::f32); }

}  // namespace flashscan::cuda
