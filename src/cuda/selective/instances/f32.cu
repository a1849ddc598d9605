// SPDX-License-Identifier: Apache-2.0
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f32() { return make_selective_kernels<float, float>(); }

}  // namespace flashscan::cuda
