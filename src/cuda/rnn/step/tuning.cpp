// SPDX-License-Identifier: Apache-2.0
// The choice of tuning.h.
#include "cuda/rnn/step/tuning.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {

namespace {

RnnStepShape shape_of(const RnnProblem& p, int64_t units, int64_t tiles, int shared_bytes) {
    constexpr int64_t own =
        1024 + 2 * sizeof(int32_t) * rnn_step_rows * rnn_step_warps;  // of the system and the kernel
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
    shape.threads = static_cast<int>(32 * units * tiles);
    return shape;
}

// Warps that share the k of a head's products, in pieces of 32, and run the cells of 16 rows of `units` units.
int64_t matrix_warps(int64_t head_dim, int64_t units) {
    const int64_t pieces = ceil_div(head_dim, int64_t{32});
    const int64_t warps = ceil_div(pieces, ceil_div(pieces, int64_t{rnn_step_matrix_warps}));
    return std::max({warps, ceil_div(units * rnn_step_most_rows, int64_t{32}), int64_t{4}});
}

}  // namespace

RnnStepShape choose_rnn_step(const RnnProblem& p, int multiprocessors, int shared_bytes) {
    const int64_t units = ceil_div(p.width(), int64_t{multiprocessors}), tiles = ceil_div(p.batch, rnn_step_rows);
    RnnStepShape shape = shape_of(p, units, tiles, shared_bytes);
    if (shape.blocks == 0 || p.head_dim % 8 != 0 || p.head_dim > rnn_step_direct_dim) return shape;
    if (tiles == 1) {
        if (units <= rnn_step_direct_warps) shape.way = RnnStepWay::direct;
    } else if (size_of(p.dtype) == 2 && p.weight_dtype == p.dtype) {
        int64_t of_a_head = units;
        while (p.head_dim % of_a_head != 0) ++of_a_head;
        if (of_a_head * p.counts().gates > rnn_step_matrix_rows) return shape;
        const RnnStepShape matrix = shape_of(p, of_a_head, tiles, shared_bytes);
        if (matrix.blocks == 0) return shape;
        shape = matrix;
        shape.way = RnnStepWay::matrix;
        shape.matrix_threads = static_cast<int>(32 * matrix_warps(p.head_dim, of_a_head));
    }
    return shape;
}

}  // namespace flashscan::cuda
