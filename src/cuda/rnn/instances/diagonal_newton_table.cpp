// SPDX-License-Identifier: Apache-2.0
// The table of diagonal_newton_table.h.
#include "cuda/rnn/instances/diagonal_newton_table.h"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_f32(Cell cell);
RnnNewtonKernels rnn_newton_bf16(Cell cell);
RnnNewtonKernels rnn_newton_f16(Cell cell);

RnnNewtonKernels rnn_newton_kernels(Dtype dtype, Cell cell) {
    switch (dtype) {
    case Dtype::bf16: return rnn_newton_bf16(cell);
    case Dtype::f16: return rnn_newton_f16(cell);
    default: return rnn_newton_f32(cell);
    }
}

}  // namespace flashscan::cuda
