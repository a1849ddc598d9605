// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "fused" of recurrent networks for f32 data.
#include "cuda/rnn/instances/fused_instance.cuh"

namespace flashscan::cuda {

std::span<const RnnFusedShape> rnn_fused_f32(Cell cell) { return make_fused_shapes<float>(cell); }
const void* rnn_fused_f32_weights() { return make_weight_kernel<float>(Dtype::f32); }

}  // namespace flashscan::cuda
