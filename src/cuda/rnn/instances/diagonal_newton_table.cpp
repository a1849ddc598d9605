// SPDX-License-Identifier: Apache-2.0
// The table of diagonal_newton_table.h.
#include "cuda/rnn/instances/diagonal_newton_table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_f32(Cell cell);
RnnNewtonKernels rnn_newton_bf16(Cell cell);
RnnNewtonKernels rnn_newton_f16(Cell cell);

RnnNewtonKernels rnn_newton_kernels(Dtype dtype, Cell cell) {
    return of_dtype<RnnNewtonKernels (*)(Cell)>(
        dtype, {{Dtype::f32, rnn_newton_f32}, {Dtype::bf16, rnn_newton_bf16}, {Dtype::f16, rnn_newton_f16}})(cell);
}

}  // namespace flashscan::cuda
