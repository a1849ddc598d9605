// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal" of recurrent networks for bf16 and f16 data. Their code is alike, and what is alike
// within a file is packed once.
#include "cuda/rnn/instances/diagonal_instance.cuh"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_bf16(Cell cell) { return make_diagonal_kernels<__nv_bfloat16>(cell); }
RnnDiagonalKernels rnn_diagonal_f16(Cell cell) { return make_diagonal_kernels<__half>(cell); }

}  // namespace flashscan::cuda
