// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "diagonal_newton" of recurrent networks. The code of the types is alike, and what is alike
// within a file is packed once.
#include "cuda/rnn/instances/diagonal_newton_instance.cuh"

namespace flashscan::cuda {

RnnNewtonKernels rnn_newton_f32(Cell cell) { return make_newton_kernels<float>(cell); }
RnnNewtonKernels rnn_newton_bf16(Cell cell) { return make_newton_kernels<__nv_bfloat16>(cell); }
RnnNewtonKernels rnn_newton_f16(Cell cell) { return make_newton_kernels<__half>(cell); }

}  // namespace flashscan::cuda
