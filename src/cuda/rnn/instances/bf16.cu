// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for bf16 data.
#include "cuda/rnn/instances/instance.cuh"

namespace flashscan::cuda {

RnnDataKernels rnn_bf16() { return make_rnn_data_kernels<__nv_bfloat16>(Dtype::bf16); }
RnnWeightKernels rnn_bf16_bf16() {
    return make_rnn_weight_kernels<__nv_bfloat16, __nv_bfloat16>(Dtype::bf16, Dtype::bf16);
}
RnnWeightKernels rnn_bf16_f32() { return make_rnn_weight_kernels<__nv_bfloat16, float>(Dtype::bf16, Dtype::f32); }

}  // namespace flashscan::cuda
