// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for f32 data.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f32() { return make_selective_kernels<float, float>(); }

}  // namespace flashscan::cuda
