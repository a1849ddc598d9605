// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for f16 data.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f16() { return make_selective_kernels<__half, float>(); }

}  // namespace flashscan::cuda
