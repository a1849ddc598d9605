// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "waves" of the linear recurrence for f32.
#include "cuda/linear/instances/waves_instance.cuh"

namespace flashscan::cuda {

WaveKernels waves_f32() { return make_wave_kernels<float>(Dtype::f32); }

}  // namespace flashscan::cuda
