// SPDX-License-Identifier: Apache-2.0
// The table of diagonal_table.h. The kernels of each dtype are compiled in a file of their own, but for bf16 and f16,
// which share one.
#include "cuda/rnn/instances/diagonal_table.h"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_f32(Cell cell);
RnnDiagonalKernels rnn_diagonal_bf16(Cell cell);
RnnDiagonalKernels rnn_diagonal_f16(Cell cell);
RnnDiagonalKernels rnn_diagonal_f64(Cell cell);

RnnDiagonalKernels rnn_diagonal_kernels(Dtype dtype, Cell cell) {
    switch (dtype) {
    case Dtype::bf16: return rnn_diagonal_bf16(cell);
    case Dtype::f16: return rnn_diagonal_f16(cell);
    case Dtype::f64: return rnn_diagonal_f64(cell);
    default: return rnn_diagonal_f32(cell);
    }
}

}  // namespace flashscan::cuda
