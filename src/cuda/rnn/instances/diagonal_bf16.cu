// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal" of recurrent networks for bf16 data.
#include "cuda/rnn/instances/diagonal_instance.cuh"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_bf16(Cell cell) { return make_diagonal_kernels<__nv_bfloat16>(cell); }

}  // namespace flashscan::cuda
