// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of chains of matrices for f64 numbers.
#include "cuda/matrix/instances/instance.cuh"

namespace flashscan::cuda {

const MatrixKernels& matrix_f64() { return make_simt_kernels<double>(); }

}  // namespace flashscan::cuda
