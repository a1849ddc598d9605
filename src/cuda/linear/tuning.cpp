// SPDX-License-Identifier: Apache-2.0
// The choices of tuning.h. The constants were measured on an H200 (bench/results).
#include "cuda/linear/tuning.h"

#include <algorithm>

#include "core/rounding.h"
#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/linear/params.h"
#include "cuda/linear/waves/params.h"

namespace flashscan::cuda {
namespace {

// "waves": the most rows with which it is faster than "chunked", [time_inner][backward]; the most teams; and the fewest
// waves, and chunks of a row, with which it is faster.
constexpr int64_t wave_most_rows[2][2] = {{128, 128}, {64, 128}};
constexpr int64_t wave_most_teams = 4;
constexpr int64_t wave_least_waves = 3, wave_least_chunks = 4;

// "rows": groups of a set, which are about as many as the blocks of 8 warps that an H200 holds, and twice as many where
// a lane has at most rows_wide_steps steps; and the fewest groups with which it is faster.
constexpr int64_t rows_set_groups = 256, rows_wide_set_groups = 512, rows_wide_steps = 16;
constexpr int64_t rows_least_groups = 256;
// With up to so many groups of one chunk each, all blocks run at once, and lanes without steps cost nothing.
constexpr int64_t rows_side_by_side = 512;

// "columns": the fewest groups of a set, and the fewest strips with which it is faster.
constexpr int64_t columns_set_groups = 64, columns_least_strips = 32;
// With up to so many chunks a chain of carries is as fast as looking back; with up to so many strips as well, warps
// without steps cost nothing.
constexpr int64_t columns_few_chunks = 4, columns_few_strips = 256;

// Lanes of a warp that stand side by side in rows. With channels innermost they are as few as the rows need, and the
// other lanes take segments of time. With time innermost as many lanes as possible take segments, but down to a quarter
// of them where the last warp of a row would leave more than 30 % of the lanes without steps.
int log2_lane_rows(const LinearShape& shape, const LinearTile& tile) {
    if (shape.sums_rows_every_step) return 5;
    if (shape.time_inner) {
        if (shape.by_sequence()) return 0;
        int log2_segments = log2_up(ceil_div(shape.time, tile.steps), 5);
        const auto wasted = [&] { return round_up(shape.time, int64_t{tile.steps} << log2_segments) - shape.time; };
        if (shape.time > int64_t{32} * tile.steps)
            while (log2_segments > 3 && 10 * wasted() > 3 * shape.time) --log2_segments;
        return 5 - log2_segments;
    }
    return shape.batch_invariant ? 5 : log2_up(ceil_div(shape.rows, tile.lane_rows), 5);
}

// Warps of a block that follow each other in time: as many as there are steps for, as long as no more than a seventh of
// them have none.
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
        t.chunks = shape.by_sequence() ? shape.time / t.chunk_steps + shape.sequences
                                       : std::max<int64_t>(ceil_div(shape.time, t.chunk_steps), 1);
    };
    // Whether chunks start before the chunks before them have ended; a chain of carries would then be slow.
    const auto waits = [&] {
        return shape.by_sequence() ||
               t.chunks > 1 && (shape.batch_invariant || shape.batches * t.row_groups < chain_blocks);
    };
    int log2_warp_rows = log2_warps - log2_warps_in_time(shape.time, warp_steps, log2_warps);
    // Warps of one block store at about the same time, so that their parts of a sector are merged in the cache.
    const bool one_warp = shape.rows <= int64_t{tile.lane_rows} << t.log2_lane_rows;
    if (shape.shares_sectors && !one_warp && !shape.time_inner && !shape.batch_invariant)
        log2_warp_rows = std::max(log2_warp_rows, 1);
    cut(log2_warp_rows);
    if (waits()) cut(0);
    if (!waits()) return t;
    // Where bits must depend neither on the number of rows nor on their alignment, chunks are composed as by the widest
    // tile.
    if (shape.batch_invariant && !shape.time_inner) t.log2_fold_rows = 6;
    t.log2_group_chunks = log2_group_chunks(tile.warps, std::max(rows, int64_t{1} << t.log2_fold_rows));
    t.log2_link_groups = t.log2_group_chunks;
    return t;
}

LinearTuning tune_rows(const LinearShape& shape, const LinearTile& tile) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::rows;
    const int64_t warp_steps = int64_t{32} * tile.steps;
    const int64_t row_warps = ceil_div(shape.time + shape.skew, warp_steps);
    t.chunks = ceil_div(row_warps, int64_t{tile.warps});
    const int64_t in_time = ceil_div(row_warps, t.chunks);
    t.chunk_steps = warp_steps * in_time;
    t.log2_lane_rows = 0;
    t.log2_warp_rows = in_time == 1 ? 1 : 0;  // with blocks of a single warp there would be too many blocks
    t.warps = static_cast<int>(in_time << t.log2_warp_rows);
    t.row_groups = ceil_div(shape.batches * shape.rows, int64_t{1} << t.log2_warp_rows);
    t.set_groups = std::min(t.row_groups, tile.steps <= rows_wide_steps ? rows_wide_set_groups : rows_set_groups);
    t.blocks = ceil_div(t.row_groups, t.set_groups) * t.set_groups * t.chunks;
    return t;
}

bool rows_suit(const LinearShape& shape, const LinearTuning& rows) {
    if (rows.chunks == 1 && rows.row_groups <= rows_side_by_side) return true;
    const int64_t wasted = rows.chunks * rows.chunk_steps - shape.time - shape.skew;
    const bool cut = 4 * shape.time < rows.chunk_steps * shape.sequences;  // most chunks begin sequences of their own
    return wasted < shape.time && (cut ? rows.chunks : 1) * rows.row_groups >= rows_least_groups;
}

LinearTuning tune_columns(const LinearShape& shape, const LinearTile& tile) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::columns;
    const int log2_warps = log2_up(tile.warps, 5);
    const int64_t strip = int64_t{tile.row_lanes} * tile.lane_rows;
    const bool few = shape.batches * ceil_div(shape.rows, strip) <= columns_few_strips &&
                     shape.time <= columns_few_chunks * tile.warps * tile.steps;
    const int log2_in_time = few ? log2_up(ceil_div(shape.time, tile.steps), log2_warps)
                                 : log2_warps_in_time(shape.time, tile.steps, log2_warps);
    // Two strips share a block where they store to the same sectors, which are then merged in the cache, and where
    // blocks would have a single warp.
    t.log2_warp_rows = shape.rows > strip && (shape.shares_sectors || log2_in_time == 0) ? 1 : 0;
    const int log2_time = std::min(log2_in_time, log2_warps - t.log2_warp_rows);
    t.warps = 1 << (log2_time + t.log2_warp_rows);
    t.chunk_steps = int64_t{tile.steps} << log2_time;
    t.chunks = ceil_div(shape.time, t.chunk_steps);
    t.row_groups = ceil_div(shape.rows, strip << t.log2_warp_rows);
    const int64_t groups = shape.batches * t.row_groups;
    // The sets are of about equal size: in a small one blocks would wait for each other.
    const int64_t sets = std::max<int64_t>(groups / columns_set_groups, 1);
    t.set_groups = ceil_div(groups, sets);
    t.blocks = ceil_div(groups, t.set_groups) * t.set_groups * t.chunks;
    return t;
}

bool columns_suit(const LinearShape& shape, const LinearTile& tile, const LinearTuning& columns, bool narrowest) {
    const bool aligned = tile.row_lanes == 32;
    if (aligned && (columns.chunks == 1 || (narrowest && columns.chunks <= columns_few_chunks))) return true;
    const int64_t wasted = columns.chunks * columns.chunk_steps - shape.time;
    const int64_t strips = shape.batches * columns.row_groups << columns.log2_warp_rows;
    const bool cut = shape.time < 8 * columns.chunk_steps * shape.sequences;  // chains of few chunks
    return 7 * wasted <= shape.time && (cut ? columns.chunks : 1) * strips >= columns_least_strips;
}

LinearTuning tune_waves(const LinearShape& shape, const WaveTile& tile, int multiprocessors) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::waves;
    t.warps = tile.warps;
    t.ring = tile.ring;
    t.log2_lane_rows = log2_up(ceil_div(shape.rows, tile.lane_rows), log2_up(tile.rows / tile.lane_rows, 5));
    const int64_t rows = int64_t{tile.lane_rows} << t.log2_lane_rows;
    t.row_groups = ceil_div(shape.rows, rows);
    t.chunk_steps = int64_t{32 >> t.log2_lane_rows} * tile.steps * tile.warps;
    t.chunks = ceil_div(shape.time, t.chunk_steps);
    // As many teams as possible walk strips side by side; a team needs a block for each row of a strip, which finds the
    // row's carries.
    const int64_t sequences = shape.batches * t.row_groups, most_blocks = std::min(multiprocessors, wave_most_blocks);
    while (!shape.time_inner && t.teams < wave_most_teams && sequences % (2 * t.teams) == 0 &&
           most_blocks / (2 * t.teams) >= rows)
        t.teams *= 2;
    t.blocks = t.teams * std::min(most_blocks / t.teams, std::max(sequences / t.teams * t.chunks, rows));
    return t;
}

bool waves_suit(const LinearShape& shape, const LinearTuning& waves, bool backward) {
    const int64_t rows = shape.batches * shape.rows, sequences = shape.batches * waves.row_groups;
    return rows <= wave_most_rows[shape.time_inner][backward] &&
           sequences * waves.chunks >= wave_least_waves * waves.blocks && waves.chunks >= wave_least_chunks;
}

}  // namespace flashscan::cuda
