// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal_newton" of recurrent networks for bf16 data.
#include "cuda/rnn/instances/diagonal_newton_instance.cuh"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_bf16(Cell cell) { return make_newton_kernels<__nv_bfloat16>(cell); }

}  // namespace flashscan::cuda
