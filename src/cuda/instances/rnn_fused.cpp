// SPDX-License-Identifier: Apache-2.0
#include "cuda/instances/rnn_fused.h"

namespace flashscan::cuda {

std::span<const RnnFusedShape> rnn_fused_bf16(Cell cell);
std::span<const RnnFusedShape> rnn_fused_f16(Cell cell);

std::span<const RnnFusedShape> rnn_fused_shapes(Dtype dtype, Cell cell) {
    if (dtype == Dtype::bf16) return rnn_fused_bf16(cell);
    if (dtype == Dtype::f16) return rnn_fused_f16(cell);
    return {};
}

}  // namespace flashscan::cuda
