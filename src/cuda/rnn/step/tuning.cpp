// SPDX-License-Identifier: Apache-2.0
// The choice of tuning.h.
#include "cuda/rnn/step/tuning.h"

#include "core/rounding.h"

namespace flashscan::cuda {

RnnStepShape choose_rnn_step(const RnnProblem& p, int multiprocessors, int shared_bytes) {
    constexpr int64_t own =
        1024 + 2 * sizeof(int32_t) * rnn_step_rows * rnn_step_warps;  // of the system and the kernel
    const int64_t units = ceil_div(p.width(), int64_t{multiprocessors}), tiles = ceil_div(p.batch, rnn_step_rows);
    if (units * tiles > rnn_step_warps) return {};
    const int64_t padded = round_up(p.head_dim, 8), heads = rnn_step_heads(units, p.head_dim, p.heads);
    const int64_t weights = units * p.counts().gates * padded * size_of(p.weight_dtype);
    const int64_t vectors = heads * tiles * rnn_step_rows * padded * static_cast<int64_t>(sizeof(float));
    if (weights + vectors > shared_bytes - own) return {};
    RnnStepShape shape;
    shape.units = static_cast<int>(units);
    shape.tiles = static_cast<int>(tiles);
    shape.padded = static_cast<int>(padded);
    shape.blocks = static_cast<int>(ceil_div(p.width(), units));
    shape.weight_bytes = static_cast<int>(weights);
    shape.shared_bytes = static_cast<int>(weights + vectors);
    shape.direct =
        tiles == 1 && units <= rnn_step_direct_warps && p.head_dim % 8 == 0 && p.head_dim <= rnn_step_direct_dim;
    return shape;
}

}  // namespace flashscan::cuda
