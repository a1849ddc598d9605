// SPDX-License-Identifier: Apache-2.0
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f16() { return make_selective_kernels<__half, float>(); }

}  // namespace flashscan::cuda
