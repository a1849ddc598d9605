// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of chains of matrices for c64 numbers.
#include "cuda/matrix/instances/instance.cuh"

namespace flashscan::cuda {

const MatrixKernels& matrix_c64() { return make_simt_kernels<Complex<float>>(); }

}  // namespace flashscan::cuda
