// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/linear_tuning.h"

#include <algorithm>

#include "core/rounding.h"
#include "cuda/tuning/look_back_tuning.h"

namespace flashscan::cuda {
namespace {

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
    // The widest tile counts where bits may not depend on the number of rows.
    const int64_t counted = shape.batch_invariant && !shape.time_inner ? 64 : rows;
    t.log2_group_chunks = log2_group_chunks(tile.warps, counted);
    t.log2_link_groups = t.log2_group_chunks;
    return t;
}

}  // namespace flashscan::cuda
