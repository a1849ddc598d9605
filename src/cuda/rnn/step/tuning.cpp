// SPDX-License-Identifier: Apache-2.0
// The choice of tuning.h.
#include "cuda/rnn/step/tuning.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {

namespace {

// Tensor cores take a fixed time longer than multiply-adds take for a single row. This is how many multiplications of further
// rows a block does by multiply-adds in that time.
constexpr int64_t rnn_step_few_products = 32768;

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

// Blocks of at least `units` units whose products are those of tensor cores; none where they cannot have them.
RnnStepShape matrix_shape(const RnnProblem& p, int64_t units, int64_t tiles, int shared_bytes) {
    if (size_of(p.dtype) != 2 || p.weight_dtype != p.dtype) return {};
    if (units > p.head_dim) return {};
    while (p.head_dim % units != 0) ++units;  // which are of one head
    if (units * p.counts().gates > rnn_step_matrix_rows) return {};
    RnnStepShape shape = shape_of(p, units, tiles, shared_bytes);
    shape.way = RnnStepWay::matrix;
    shape.matrix_threads = static_cast<int>(32 * matrix_warps(p.head_dim, units));
    return shape;
}

}  // namespace

RnnStepShape choose_rnn_step(const RnnProblem& p, int multiprocessors, int shared_bytes) {
    const int64_t units = ceil_div(p.width(), int64_t{multiprocessors}), tiles = ceil_div(p.batch, rnn_step_rows);
    RnnStepShape shape = shape_of(p, units, tiles, shared_bytes);
    if (shape.blocks == 0 || p.head_dim % 8 != 0 || p.head_dim > rnn_step_direct_dim) return shape;
    // Multiply-adds take longer with each row after the first; tensor cores take some 0.4 us more, for any number of rows.
    const bool direct = tiles == 1 && units <= rnn_step_direct_warps;
    const int64_t more_products = (p.batch - 1) * units * p.counts().gates * p.head_dim;
    if (!direct || more_products >= rnn_step_few_products) {
        const RnnStepShape matrix = matrix_shape(p, units, tiles, shared_bytes);
        if (matrix.blocks != 0) return matrix;
    }
    if (direct) shape.way = RnnStepWay::direct;
    return shape;
}

}  // namespace flashscan::cuda
