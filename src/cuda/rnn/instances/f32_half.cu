// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for f32, bf16 and f16 data. Their code is alike, and what is alike within
// a file is packed once.
#include "cuda/rnn/instances/instance.cuh"

namespace flashscan::cuda {

RnnDataKernels rnn_f32() { return make_rnn_data_kernels<float>(); }
RnnWeightKernels rnn_f32_f32() { return make_rnn_weight_kernels<float, float>(Dtype::f32, Dtype::f32); }
RnnDataKernels rnn_bf16() { return make_rnn_data_kernels<__nv_bfloat16>(); }
RnnWeightKernels rnn_bf16_bf16() {
    return make_rnn_weight_kernels<__nv_bfloat16, __nv_bfloat16>(Dtype::bf16, Dtype::bf16);
}
RnnWeightKernels rnn_bf16_f32() { return make_rnn_weight_kernels<__nv_bfloat16, float>(Dtype::bf16, Dtype::f32); }
RnnDataKernels rnn_f16() { return make_rnn_data_kernels<__half>(); }
RnnWeightKernels rnn_f16_f16() { return make_rnn_weight_kernels<__half, __half>(Dtype::f16, Dtype::f16); }
RnnWeightKernels rnn_f16_f32() { return make_rnn_weight_kernels<__half, float>(Dtype::f16, Dtype::f32); }

}  // namespace flashscan::cuda
