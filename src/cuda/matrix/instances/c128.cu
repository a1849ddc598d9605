// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of chains of matrices for c128 numbers.
#include "cuda/matrix/instances/instance.cuh"

namespace flashscan::cuda {

const MatrixKernels& matrix_c128() { return make_simt_kernels<Complex<double>>(); }

}  // namespace flashscan::cuda
