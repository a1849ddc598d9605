// SPDX-License-Identifier: Apache-2.0
// The choices of tuning.h.
#include "cuda/operators/tuning.h"

#include <algorithm>

#include "core/rounding.h"
#include "cuda/device/scan/look_back_tuning.h"

namespace flashscan::cuda {
namespace {

// So many groups of rows side by side keep a GPU busy: an H100 runs 264 to 396 blocks of affine maps at once.
constexpr int64_t many_groups = 256;

int log2_lane_rows(const ElementShape& s) {
    if (s.by_sequence()) return s.time_inner ? 0 : 5;
    if (s.time_inner) return 5 - log2_up(ceil_div(s.time, s.steps), 5);
    if (s.batch_invariant) return 5;
    const int least = s.log2_least_rows > 0 ? s.log2_least_rows : 0;
    int log2 = log2_up(s.rows, 5);
    while (log2 > least && s.batches * ceil_div(s.rows, int64_t{1} << log2) < many_groups) --log2;
    return log2;
}

}  // namespace

ElementTuning tune_elements(const ElementShape& s) {
    ElementTuning t;
    t.log2_lane_rows = log2_lane_rows(s);
    const int64_t warp_steps = int64_t{32 >> t.log2_lane_rows} * s.steps;
    const int log2_warps = log2_up(s.warps, 5);
    const auto cut = [&](int log2_warp_rows) {
        t.log2_warp_rows = log2_warp_rows;
        t.row_groups = ceil_div(s.rows, int64_t{1} << (t.log2_lane_rows + log2_warp_rows));
        t.chunk_steps = warp_steps * (s.warps >> log2_warp_rows);
        t.chunks = s.by_sequence() ? s.time / t.chunk_steps + s.sequences
                                   : std::max<int64_t>(ceil_div(s.time, t.chunk_steps), 1);
    };
    // Whether chunks start before the chunks before them have ended; a chain of carries would then be slow.
    const auto waits = [&] {
        return s.by_sequence() || (t.chunks > 1 && (s.batch_invariant || s.batches * t.row_groups < chain_blocks));
    };
    cut(log2_warps - log2_up(ceil_div(s.time, warp_steps), log2_warps));
    if (waits()) cut(0);
    if (!waits()) return t;
    // Where bits must not depend on the number of rows, the groups are those of the widest tile.
    const int64_t rows = s.batch_invariant && !s.time_inner ? 32 : int64_t{1} << t.log2_lane_rows;
    t.log2_group_chunks = log2_group_chunks(s.warps, rows);
    t.log2_link_groups = t.log2_group_chunks;
    return t;
}

}  // namespace flashscan::cuda
