// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/linear_tuning.h"

#include <algorithm>

namespace flashscan::cuda {
namespace {

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Time that a warp of the stream kernel walks before cutting it pays.
constexpr int64_t short_time = 64;

// The longest look-back group.
constexpr int longest_group = 128;

}  // namespace

LinearAlgorithm choose_linear_algorithm(const LinearShape& shape) {
    // Chunks of packed sequences do not begin where a sequence does, so its bits would depend on those before it.
    const bool moves = shape.packed && shape.batch_invariant;
    const bool stream = shape.sums_rows_every_step || moves || shape.time <= short_time;
    return stream ? LinearAlgorithm::stream : LinearAlgorithm::chunked;
}

LinearTuning tune_stream(const LinearShape& shape, const LinearTile& tile) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::stream;
    t.row_groups = divide_up(shape.rows, 32 * tile.channels_per_lane);
    t.chunk_steps = tile.steps;
    return t;
}

LinearTuning tune_chunked(const LinearShape& shape, const LinearTile& tile, bool time_inner) {
    LinearTuning t;
    t.algorithm = LinearAlgorithm::chunked;
    // As few rows as there are, up to the widest tile; the lanes left over take segments of time. The same for any
    // number of rows where bits may not depend on it.
    t.log2_lane_rows = shape.batch_invariant && !time_inner ? tile.log2_widest : 0;
    while (!shape.batch_invariant && t.log2_lane_rows < tile.log2_widest &&
           int64_t{tile.channels_per_lane} << t.log2_lane_rows < shape.rows)
        ++t.log2_lane_rows;
    const int rows = tile.channels_per_lane << t.log2_lane_rows;
    t.row_groups = divide_up(shape.rows, rows);
    t.chunk_steps = int64_t{tile.warps} * (32 >> t.log2_lane_rows) * tile.steps;
    t.chunks = std::max<int64_t>(divide_up(shape.time, t.chunk_steps), 1);
    // A thread folds up to eight summaries, so that looking back costs less than reading the tile.
    t.group_chunks = std::min(longest_group, 8 * std::max(1, 32 * tile.warps / rows));
    return t;
}

}  // namespace flashscan::cuda
