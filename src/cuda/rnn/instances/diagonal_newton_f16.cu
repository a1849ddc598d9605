// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal_newton" of recurrent networks for f16 data.
#include "cuda/rnn/instances/diagonal_newton_instance.cuh"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_f16(Cell cell) { return make_newton_kernels<__half>(cell); }

}  // namespace flashscan::cuda
