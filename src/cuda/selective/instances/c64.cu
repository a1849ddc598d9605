// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans with c64 states.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_c64() { return make_selective_kernels<float, Complex<float>>(); }

}  // namespace flashscan::cuda
