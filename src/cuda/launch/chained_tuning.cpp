// SPDX-License-Identifier: Apache-2.0
// The choices of chained_tuning.h. The constants were measured on an H200 (bench/results); bench/sweep.py measures anew
// rows_least_groups, columns_least_strips and columns_least_grouped.
#include "cuda/launch/chained_tuning.h"

#include <algorithm>

#include "core/rounding.h"
#include "cuda/device/scan/look_back_tuning.h"

namespace flashscan::cuda {
namespace {

// Rows: groups of a set, which are about as many as the blocks of 8 warps that an H200 holds (complex rows have blocks
// of 4), and twice as many where a lane has at most rows_wide_steps steps; and the fewest groups with which it is
// faster.
constexpr int64_t rows_set_groups = 256, rows_wide_set_groups = 512, rows_wide_steps = 16;
constexpr int64_t rows_least_groups = 256;
// From so many groups on, bringing tiles into L2 ahead gains nothing. Nor does it with up to so many blocks for each
// multiprocessor, which load their tiles at once (both measured on an H100).
constexpr int64_t rows_ahead_groups = 32, rows_ahead_least_blocks = 4;
// With up to so many groups of one chunk each, all blocks run at once, and lanes without steps cost nothing.
constexpr int64_t rows_side_by_side = 512;

// Columns: the fewest groups of a set, and the fewest strips with which it is faster.
constexpr int64_t columns_set_groups = 64, columns_least_strips = 32;
// With so many blocks a chunk, warps of a block may share gates. With half as many the chain of chunks is slower than
// what fewer terms save.
constexpr int64_t columns_least_sharing = 32;
// From so many groups of rows on they are faster than a kernel that looks back if their chunks are gathered in groups,
// where a chain of all chunks is slower: a hop from chunk to chunk takes a microsecond. (With a chain, 32 strips and
// more are as fast or faster: f64 backward took a third longer in groups.)
constexpr int64_t columns_least_grouped = 8;
// With up to so many chunks a chain of carries is as fast as looking back; with up to so many strips as well, warps
// without steps cost nothing.
constexpr int64_t columns_few_chunks = 4, columns_few_strips = 256;

}  // namespace

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

ChainedTuning tune_chained_rows(const ChainedShape& shape, const ChainedTile& tile) {
    ChainedTuning t;
    const int64_t warp_steps = int64_t{32} * tile.steps;
    const int64_t row_warps = ceil_div(shape.time + shape.skew, warp_steps);
    t.chunks = ceil_div(row_warps, int64_t{tile.warps >> shape.log2_sharing});
    const int64_t in_time = ceil_div(row_warps, t.chunks);
    t.chunk_steps = warp_steps * in_time;
    t.log2_warp_rows = shape.log2_sharing;
    if (in_time == 1 && t.log2_warp_rows == 0) t.log2_warp_rows = 1;  // blocks of a single warp would be too many
    t.warps = static_cast<int>(in_time << t.log2_warp_rows);
    t.row_groups = ceil_div(shape.batches * shape.rows, int64_t{1} << t.log2_warp_rows);
    t.set_groups = std::min(t.row_groups, tile.steps <= rows_wide_steps ? rows_wide_set_groups : rows_set_groups);
    t.blocks = ceil_div(t.row_groups, t.set_groups) * t.set_groups * t.chunks;
    return t;
}

bool chained_rows_suit(const ChainedShape& shape, const ChainedTuning& rows, int most_wasted) {
    if (rows.chunks == 1 && rows.row_groups <= rows_side_by_side) return true;
    const int64_t wasted = rows.chunks * rows.chunk_steps - shape.time - shape.skew;
    const bool cut = 4 * shape.time < rows.chunk_steps * shape.sequences;  // most chunks begin sequences of their own
    return wasted < most_wasted * (shape.time + shape.skew) &&
           (cut ? rows.chunks : 1) * rows.row_groups >= rows_least_groups;
}

bool chained_groups_suit(const ChainedTuning& rows) { return rows.chunks > 1 && rows.row_groups < rows_least_groups; }

int64_t steps_ahead(const ChainedTuning& rows, int multiprocessors) {
    if (rows.row_groups >= rows_ahead_groups || rows.blocks <= rows_ahead_least_blocks * multiprocessors) return 0;
    return std::max<int64_t>(multiprocessors / rows.row_groups, 1) * rows.chunk_steps;
}

ChainedBytes exchanged_bytes(const ChainedTuning& tuning, int group_chunks, Extent lanes, int carry_bytes,
                             int record_bytes) {
    if (tuning.chunks <= 1) return {};
    const Extent carries = lanes * ceil_div(tuning.chunks, int64_t{group_chunks}) * carry_bytes;
    return {carries, carries + (group_chunks > 1 ? lanes * tuning.chunks * record_bytes : Extent())};
}

ChainedTuning tune_chained_columns(const ChainedShape& shape, const ChainedTile& tile) {
    ChainedTuning t;
    const int log2_warps = log2_up(tile.warps, 5);
    const int64_t strip = int64_t{tile.row_lanes} * tile.lane_rows;
    const bool few = shape.batches * ceil_div(shape.rows, strip) <= columns_few_strips &&
                     shape.time <= columns_few_chunks * tile.warps * tile.steps;
    const int log2_in_time = few ? log2_up(ceil_div(shape.time, tile.steps), log2_warps)
                                 : log2_warps_in_time(shape.time, tile.steps, log2_warps);
    // Two strips share a block where they store to the same sectors, which are then merged in the cache, and where
    // blocks would have a single warp.
    t.log2_warp_rows = shape.log2_sharing;
    if (t.log2_warp_rows == 0 && shape.rows > strip && (shape.shares_sectors || log2_in_time == 0))
        t.log2_warp_rows = 1;
    const int log2_time = std::min(log2_in_time, log2_warps - t.log2_warp_rows);
    t.warps = 1 << (log2_time + t.log2_warp_rows);
    t.chunk_steps = int64_t{tile.steps} << log2_time;
    t.chunks = ceil_div(shape.time, t.chunk_steps);
    t.row_groups = ceil_div(shape.rows, strip << (t.log2_warp_rows - shape.log2_sharing));
    const int64_t groups = (shape.batches >> shape.log2_sharing) * t.row_groups;
    // The sets are of about equal size: in a small one blocks would wait for each other.
    int64_t sets = std::max<int64_t>(groups / columns_set_groups, 1);
    // Lanes of skewed strips compute where there are no rows, so that there must be no groups beyond the last one.
    while (tile.row_lanes < 32 && groups % sets != 0) --sets;
    t.set_groups = ceil_div(groups, sets);
    t.blocks = ceil_div(groups, t.set_groups) * t.set_groups * t.chunks;
    return t;
}

bool fills_chunks(const ChainedShape& shape, const ChainedTuning& columns) {
    return 7 * (columns.chunks * columns.chunk_steps - shape.time) <= shape.time;
}

bool sharing_rows_suit(const ChainedTuning& rows) { return rows.row_groups >= rows_least_groups; }

bool sharing_columns_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns) {
    const int64_t groups = (shape.batches >> shape.log2_sharing) * columns.row_groups;
    return columns.chunks == 1 || (shape.time > tile.warps * tile.steps && groups >= columns_least_sharing);
}

bool chained_columns_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns,
                          bool narrowest) {
    const bool aligned = tile.row_lanes == 32;
    if (aligned && (columns.chunks == 1 || (narrowest && columns.chunks <= columns_few_chunks))) return true;
    const int64_t strips = shape.batches * columns.row_groups << (columns.log2_warp_rows - shape.log2_sharing);
    const bool cut = shape.time < 8 * columns.chunk_steps * shape.sequences;  // chains of few chunks
    return fills_chunks(shape, columns) && (cut ? columns.chunks : 1) * strips >= columns_least_strips;
}

bool chained_column_groups_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns,
                                int record_bytes) {
    return tile.row_lanes == 32 && record_bytes <= column_group_record_bytes && fills_chunks(shape, columns) &&
           columns.chunks > tile.few_chunks && shape.batches * columns.row_groups >= columns_least_grouped;
}

ChainedSets sets_of(const ChainedTuning& tuning, int64_t rows) {
    ChainedSets sets;
    sets.groups = static_cast<uint32_t>(tuning.set_groups);
    sets.blocks = static_cast<uint32_t>(tuning.set_groups * tuning.chunks);
    sets.by_groups = divisor_of(sets.groups);
    sets.by_blocks = divisor_of(sets.blocks);
    sets.by_rows = divisor_of(static_cast<uint32_t>(rows));
    return sets;
}

}  // namespace flashscan::cuda
