// SPDX-License-Identifier: Apache-2.0
// The choices of tuning.h. The constants were measured on an H200 (bench/results); bench/sweep.py measures anew those
// that choose between kernels.
#include "cuda/linear/tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/launch/look_back_cut.h"
#include "cuda/linear/few_long_rows/params.h"
#include "cuda/linear/params.h"

namespace flashscan::cuda {
namespace {

// "few_long_rows": the most rows with which it is faster, [time_inner], than "chunked" and than groups of "rows" (both
// passes together); the most teams; and the fewest waves, and chunks of a row, with which it is faster. With time
// innermost and more than `wave_few_rows` rows it needs more waves.
constexpr int64_t wave_most_rows[2] = {128, 192}, wave_few_rows = 64, wave_least_waves_of_many = 16;
constexpr int64_t wave_most_teams = 4;
constexpr int64_t wave_least_waves = 3, wave_least_chunks = 4;

// Lanes of a warp that stand side by side in rows. With channels innermost they are as few as the rows need, and the
// other lanes take segments of time. With time innermost as many lanes as possible take segments, but down to a quarter
// of them where the last warp of a row would leave more than 30 % of the lanes without steps.
int log2_lane_rows(const LinearShape& shape, const LinearTile& tile) {
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

}  // namespace

ChunkedTuning tune_chunked(const LinearShape& shape, const LinearTile& tile) {
    ChunkedTuning t;
    t.log2_lane_rows = log2_lane_rows(shape, tile);
    const int64_t warp_steps = int64_t{32 >> t.log2_lane_rows} * tile.steps;
    const int log2_warps = log2_up(tile.warps, 5);
    int log2_warp_rows = log2_warps - log2_warps_in_time(shape.time, warp_steps, log2_warps);
    // Warps of one block store at about the same time, so that their parts of a sector are merged in the cache.
    const bool one_warp = shape.rows <= int64_t{tile.lane_rows} << t.log2_lane_rows;
    if (shape.shares_sectors && !one_warp && !shape.time_inner && !shape.batch_invariant)
        log2_warp_rows = std::max(log2_warp_rows, 1);
    // Batch invariance: chunks are composed as by the widest tile, so that bits depend neither on the number of rows
    // nor on their alignment.
    if (shape.batch_invariant && !shape.time_inner) t.log2_fold_rows = 6;
    cut_for_look_back(t, shape, tile, log2_warp_rows, int64_t{1} << t.log2_fold_rows);
    return t;
}

FewLongRowsTuning tune_few_long_rows(const LinearShape& shape, const FewLongRowsTile& tile, int multiprocessors) {
    FewLongRowsTuning t;
    t.log2_lane_rows = log2_up(ceil_div(shape.rows, tile.lane_rows), log2_up(tile.rows / tile.lane_rows, 5));
    const int64_t rows = int64_t{tile.lane_rows} << t.log2_lane_rows;
    t.row_groups = ceil_div(shape.rows, rows);
    t.chunk_steps = int64_t{32 >> t.log2_lane_rows} * tile.steps * tile.warps;
    t.chunks = ceil_div(shape.time, t.chunk_steps);
    // As many teams as possible walk strips side by side; a team needs a block for each row of a strip, which finds the
    // row's carries.
    const int64_t strips = shape.batches * t.row_groups, most_blocks = std::min(multiprocessors, wave_most_blocks);
    while (!shape.time_inner && t.teams < wave_most_teams && strips % (2 * t.teams) == 0 &&
           most_blocks / (2 * t.teams) >= rows)
        t.teams *= 2;
    t.blocks = t.teams * std::min(most_blocks / t.teams, std::max(strips / t.teams * t.chunks, rows));
    return t;
}

std::string few_long_rows_refusal(const LinearShape& shape, const FewLongRowsTuning& tuning) {
    const int64_t rows = shape.batches * shape.rows, chunks = shape.batches * tuning.row_groups * tuning.chunks;
    const int64_t least = shape.time_inner && rows > wave_few_rows ? wave_least_waves_of_many : wave_least_waves;
    if (rows > wave_most_rows[shape.time_inner])
        return fmt::format("batch * channels is {}; takes up to {} rows with {} innermost", rows,
                           wave_most_rows[shape.time_inner], shape.time_inner ? "time" : "channels");
    if (tuning.chunks < wave_least_chunks)
        return fmt::format("time is {}, cut into {} chunks; takes {} or more", shape.time, tuning.chunks,
                           wave_least_chunks);
    if (chunks < least * tuning.blocks)
        return fmt::format("time is {}, which gives {} blocks {} chunks; takes {} or more for each", shape.time,
                           tuning.blocks, chunks, least);
    return {};
}

}  // namespace flashscan::cuda
