// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/element_tuning.h"

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

// Runs that a thread folds at most, and of a group.
constexpr int folded = 4, log2_longest_group = 7;

int log2_lane_rows(const ElementShape& s) {
    if (s.time_inner) return 5 - log2_up(ceil_div(s.time, s.steps), 5);
    return s.batch_invariant ? 5 : log2_up(s.rows, 5);
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
        t.chunks = std::max<int64_t>(ceil_div(s.time, t.chunk_steps), 1);
    };
    // Whether chunks begin before those before them have ended, so that looking back must not be a chain.
    const auto waits = [&] { return t.chunks > 1 && (s.batch_invariant || s.batches * t.row_groups < chain_blocks); };
    cut(log2_warps - log2_up(ceil_div(s.time, warp_steps), log2_warps));
    if (waits()) cut(0);
    if (!waits()) return t;
    // Half of the block's threads fold; the widest tile counts where bits may not depend on the number of rows.
    const int64_t rows = s.batch_invariant && !s.time_inner ? 32 : int64_t{1} << t.log2_lane_rows;
    t.log2_group_chunks = log2_up(folded * std::max<int64_t>(16 * s.warps / rows, 1), log2_longest_group);
    t.log2_link_groups = t.log2_group_chunks;
    return t;
}

}  // namespace flashscan::cuda
