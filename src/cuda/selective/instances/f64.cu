// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for f64 data.
#include "cuda/selective/instances/instance.cuh"

namespace flashscan::cuda {

SelectiveKernels selective_f64() { return make_selective_kernels<double, double>(); }

}  // namespace flashscan::cuda
