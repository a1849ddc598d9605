// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal_newton" of recurrent networks for f32 data.
#include "cuda/rnn/instances/diagonal_newton_instance.cuh"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_f32(Cell cell) { return make_newton_kernels<float>(cell); }

}  // namespace flashscan::cuda
