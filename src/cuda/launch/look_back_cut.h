// SPDX-License-Identifier: Apache-2.0
// How kernels whose chunks look back (device/scan/look_back.cuh) cut time into chunks.
#pragma once

#include <algorithm>

#include "core/rounding.h"
#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/launch/chained_tuning.h"

namespace flashscan::cuda {

// Fills in the chunks of `t`, which has log2_lane_rows already. A block has 2^log2_warp_rows warps side by side in
// rows, but a single one where chunks look back. Their groups are those of `least_rows` rows where a block has fewer.
template <typename Tuning, typename Shape>
void cut_for_look_back(Tuning& t, const Shape& shape, const ChainedTile& tile, int log2_warp_rows,
                       int64_t least_rows = 1) {
    const int64_t warp_rows = int64_t{tile.lane_rows} << t.log2_lane_rows;
    const auto cut = [&](int log2) {
        t.log2_warp_rows = log2;
        t.row_groups = ceil_div(shape.rows, warp_rows << log2);
        t.chunk_steps = int64_t{32 >> t.log2_lane_rows} * tile.steps * (tile.warps >> log2);
        t.chunks = shape.by_sequence() ? shape.time / t.chunk_steps + shape.sequences
                                       : std::max<int64_t>(ceil_div(shape.time, t.chunk_steps), 1);
    };
    // Whether chunks start before the chunks before them have ended; a chain of carries would then be slow.
    const auto waits = [&] {
        return shape.by_sequence() ||
               (t.chunks > 1 && (shape.batch_invariant || shape.batches * t.row_groups < chain_blocks));
    };
    cut(log2_warp_rows);
    if (waits()) cut(0);
    if (!waits()) return;
    t.log2_group_chunks = t.log2_link_groups = log2_group_chunks(tile.warps, std::max(warp_rows, least_rows));
}

}  // namespace flashscan::cuda
