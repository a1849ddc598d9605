// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal" of recurrent networks for f16 data.
#include "cuda/rnn/instances/diagonal_instance.cuh"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_f16(Cell cell) { return make_diagonal_kernels<__half>(cell); }

}  // namespace flashscan::cuda
