// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal" of recurrent networks for f64 data.
#include "cuda/rnn/instances/diagonal_instance.cuh"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_f64(Cell cell) { return make_diagonal_kernels<double>(cell); }

}  // namespace flashscan::cuda
