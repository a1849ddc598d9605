// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "fused" of recurrent networks for bf16 and f16 data. Their code is alike, and what is alike
// within a file is packed once.
#include "cuda/rnn/instances/fused_instance.cuh"

namespace flashscan::cuda {

std::span<const RnnFusedShape> rnn_fused_bf16(Cell cell) { return make_fused_shapes<__nv_bfloat16>(cell); }
const void* rnn_fused_bf16_weights(Dtype weight_dtype) { return make_weight_kernel<__nv_bfloat16>(weight_dtype); }
std::span<const RnnFusedShape> rnn_fused_f16(Cell cell) { return make_fused_shapes<__half>(cell); }
const void* rnn_fused_f16_weights(Dtype weight_dtype) { return make_weight_kernel<__half>(weight_dtype); }

}  // namespace flashscan::cuda
