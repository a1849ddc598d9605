// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/linear_tuning.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// The least n with 2^n >= count, at most `limit`.
int log2_up(int64_t count, int limit) {
    int n = 0;
    while (n < limit && int64_t{1} << n < count) ++n;
    return n;
}

// Blocks of rows from which on a chain of carries keeps up with the chunks; measured on an H200, which holds 264 blocks.
constexpr int64_t chain_blocks = 48;

// Summaries that a thread folds at most, and of a group.
constexpr int folded = 4, log2_longest_group = 7;

// As few rows as there are side by side in a warp, so that its other lanes take time; time innermost, as many segments
// as there are.
int log2_lane_rows(const LinearShape& shape, const LinearTile& tile) {
    if (shape.sums_rows_every_step) return 5;
    if (shape.time_inner) return 5 - log2_up(ceil_div(shape.time, tile.steps), 5);
    return shape.batch_invariant ? 5 : log2_up(ceil_div(shape.rows, tile.lane_rows), 5);
}

// As many warps after one another as time has steps for, but no more than a seventh of them in vain.
int log2_warps_in_time(int64_t time, int64_t warp_steps, int log2_warps) {
    const int64_t warps = ceil_div(time, warp_steps);
    const auto wasted = [&](int log2) {
        const int64_t block = int64_t{1} << log2;
        return round_up(warps, block) - warps;
    };
    int log2 = log2_up(warps, log2_warps);
    while (log2 > 0 && 7 * wasted(log2) > warps) --log2;
    return log2;
}

}  // namespace

LinearTuning tune_stream(const LinearShape& shape, const LinearTile& tile) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::stream;
    t.row_groups = ceil_div(shape.rows, int64_t{32} * tile.lane_rows);
    t.chunk_steps = tile.steps;
    return t;
}

LinearTuning tune_chunked(const LinearShape& shape, const LinearTile& tile) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::chunked;
    t.log2_lane_rows = log2_lane_rows(shape, tile);
    const int64_t warp_steps = int64_t{32 >> t.log2_lane_rows} * tile.steps;
    const int log2_warps = log2_up(tile.warps, 5);
    int64_t rows = 0;
    const auto cut = [&](int log2_warp_rows) {
        t.log2_warp_rows = log2_warp_rows;
        rows = int64_t{tile.lane_rows} << (t.log2_lane_rows + log2_warp_rows);
        t.row_groups = ceil_div(shape.rows, rows);
        t.chunk_steps = warp_steps * (tile.warps >> log2_warp_rows);
        t.chunks = std::max<int64_t>(ceil_div(shape.time, t.chunk_steps), 1);
    };
    // Whether chunks begin before those before them have ended, so that looking back must not be a chain.
    const auto waits = [&] {
        return t.chunks > 1 && (shape.batch_invariant || shape.batches * t.row_groups < chain_blocks);
    };
    cut(log2_warps - log2_warps_in_time(shape.time, warp_steps, log2_warps));
    if (waits()) cut(0);
    if (!waits()) return t;
    // Half of the block's threads fold; the widest tile counts where bits may not depend on the number of rows.
    const int64_t counted = shape.batch_invariant && !shape.time_inner ? 64 : rows;
    const int64_t threads_of_row = std::max<int64_t>(int64_t{16} * tile.warps / counted, 1);
    t.log2_group_chunks = log2_up(folded * threads_of_row, log2_longest_group);
    t.log2_link_groups = t.log2_group_chunks;
    return t;
}

}  // namespace flashscan::cuda
