// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans with c128 states.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_c128() { return make_selective_kernels<double, Complex<double>>(); }

}  // namespace flashscan::cuda
