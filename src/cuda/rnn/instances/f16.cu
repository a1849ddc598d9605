// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for f16 data.
#include "cuda/rnn/instances/instance.cuh"

namespace flashscan::cuda {

RnnDataKernels rnn_f16() { return make_rnn_data_kernels<__half>(Dtype::f16); }
RnnWeightKernels rnn_f16_f16() { return make_rnn_weight_kernels<__half, __half>(Dtype::f16, Dtype::f16); }
RnnWeightKernels rnn_f16_f32() { return make_rnn_weight_kernels<__half, float>(Dtype::f16, Dtype::f32); }

}  // namespace flashscan::cuda
