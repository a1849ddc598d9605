// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for f32 data.
#include "cuda/rnn/instances/instance.cuh"

namespace flashscan::cuda {

RnnDataKernels rnn_f32() { return make_rnn_data_kernels<float>(Dtype::f32); }
RnnWeightKernels rnn_f32_f32() { return make_rnn_weight_kernels<float, float>(Dtype::f32, Dtype::f32); }

}  // namespace flashscan::cuda
