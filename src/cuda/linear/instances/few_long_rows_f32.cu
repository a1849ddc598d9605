// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "few_long_rows" of the linear recurrence for f32.
#include "cuda/linear/instances/few_long_rows_instance.cuh"

namespace flashscan::cuda {

WaveKernels waves_f32() { return make_wave_kernels<float>(Dtype::f32); }

}  // namespace flashscan::cuda
