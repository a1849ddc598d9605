// SPDX-License-Identifier: Apache-2.0
// The choice of tuning.h.
#include "cuda/rnn/decode/tuning.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {

namespace {

// With 16-bit data tensor cores pay from this many multiplications of a block on, those of its first row not counted:
// they take a fixed time longer than multiply-adds take for one row, in which multiply-adds do this many.
constexpr int64_t rnn_step_few_products = 24576;
// In f32, where tensor cores compute three products for one, they pay from this many multiplications of a block on, and
// only in the place of the kernel with R in shared memory: blocks of up to four rows and eight units, whose R is in
// registers, are faster without them.
constexpr int64_t rnn_step_few_f32_products = 40960;

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

// Warps that share the k of a head's products and run the cells of 16 rows of `units` units. More warps than 8 pay only
// where the k need them, as the sums of all are added up.
int64_t matrix_warps(const RnnProblem& p, int64_t units) {
    const int64_t pieces = ceil_div(p.head_dim, int64_t{rnn_step_matrix_depth});
    const int64_t needed = ceil_div(pieces, int64_t{rnn_step_matrix_pieces});
    return std::max(
        {needed, std::min(pieces, int64_t{8}), ceil_div(units * rnn_step_most_rows, int64_t{32}), int64_t{4}});
}

// Blocks of at least `units` units whose products are those of tensor cores; none where they cannot have them.
RnnStepShape matrix_shape(const RnnProblem& p, int64_t units, int64_t tiles, int shared_bytes) {
    if (p.weight_dtype != p.dtype) return {};
    if (units > p.head_dim) return {};
    while (p.head_dim % units != 0) ++units;  // so that a block's units belong to one head
    if (units * p.counts().gates > rnn_step_matrix_rows) return {};
    RnnStepShape shape = shape_of(p, units, tiles, shared_bytes);
    shape.way = RnnStepWay::matrix;
    shape.matrix_threads = static_cast<int>(32 * matrix_warps(p, units));
    return shape;
}

}  // namespace

RnnStepShape choose_rnn_step(const RnnProblem& p, int multiprocessors, int shared_bytes) {
    const int64_t units = ceil_div(p.width(), int64_t{multiprocessors}), tiles = ceil_div(p.batch, rnn_step_rows);
    RnnStepShape shape = shape_of(p, units, tiles, shared_bytes);
    if (shape.blocks == 0 || p.head_dim % 8 != 0 || p.head_dim > rnn_step_direct_dim) return shape;
    // Multiply-adds take longer with each row after the first; tensor cores take some 0.4 us more, for any number of
    // rows.
    const bool direct = tiles == 1 && units <= rnn_step_direct_warps;
    const int64_t of_row = units * p.counts().gates * p.head_dim;
    const bool many = size_of(p.dtype) == 2 ? !direct || (p.batch - 1) * of_row >= rnn_step_few_products
                                            : !direct && p.batch * of_row >= rnn_step_few_f32_products;
    if (many) {
        const RnnStepShape matrix = matrix_shape(p, units, tiles, shared_bytes);
        if (matrix.blocks != 0) return matrix;
    }
    if (direct) shape.way = RnnStepWay::direct;
    return shape;
}

}  // namespace flashscan::cuda
