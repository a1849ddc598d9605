// SPDX-License-Identifier: Apache-2.0
// The table of fused_table.h. The kernels of each dtype are compiled in a file of their own, but for bf16 and f16,
// which share one.
#include "cuda/rnn/instances/fused_table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

std::span<const RnnFusedShape> rnn_fused_bf16(Cell cell);
std::span<const RnnFusedShape> rnn_fused_f16(Cell cell);
std::span<const RnnFusedShape> rnn_fused_f32(Cell cell);
const void* rnn_fused_bf16_weights(Dtype weight_dtype);
const void* rnn_fused_f16_weights(Dtype weight_dtype);
const void* rnn_fused_f32_weights();

std::span<const RnnFusedShape> rnn_fused_shapes(Dtype dtype, Cell cell) {
    return of_dtype<std::span<const RnnFusedShape> (*)(Cell)>(
        dtype, {{Dtype::f32, rnn_fused_f32}, {Dtype::bf16, rnn_fused_bf16}, {Dtype::f16, rnn_fused_f16}})(cell);
}

const void* rnn_fused_weight_kernel(Dtype dtype, Dtype weight_dtype) {
    if (dtype == Dtype::f32) return rnn_fused_f32_weights();
    return of_dtype<const void* (*)(Dtype)>(
        dtype, {{Dtype::bf16, rnn_fused_bf16_weights}, {Dtype::f16, rnn_fused_f16_weights}})(weight_dtype);
}

}  // namespace flashscan::cuda
