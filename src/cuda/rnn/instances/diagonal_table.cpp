// SPDX-License-Identifier: Apache-2.0
// The table of diagonal_table.h. The kernels of each dtype are compiled in a file of their own, but for bf16 and f16,
// which share one.
#include "cuda/rnn/instances/diagonal_table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

RnnDiagonalKernels rnn_diagonal_f32(Cell cell);
RnnDiagonalKernels rnn_diagonal_bf16(Cell cell);
RnnDiagonalKernels rnn_diagonal_f16(Cell cell);
RnnDiagonalKernels rnn_diagonal_f64(Cell cell);

RnnDiagonalKernels rnn_diagonal_kernels(Dtype dtype, Cell cell) {
    return of_dtype<RnnDiagonalKernels (*)(Cell)>(dtype, {{Dtype::f32, rnn_diagonal_f32},
                                                          {Dtype::bf16, rnn_diagonal_bf16},
                                                          {Dtype::f16, rnn_diagonal_f16},
                                                          {Dtype::f64, rnn_diagonal_f64}})(cell);
}

}  // namespace flashscan::cuda
