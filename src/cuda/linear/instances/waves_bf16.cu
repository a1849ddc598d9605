// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/instances/waves_instance.cuh"

namespace flashscan::cuda {

WaveKernels waves_bf16() { return make_wave_kernels<__nv_bfloat16>(Dtype::bf16); }

}  // namespace flashscan::cuda
