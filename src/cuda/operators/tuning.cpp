// SPDX-License-Identifier: Apache-2.0
// The choices of tuning.h.
#include "cuda/operators/tuning.h"

#include "cuda/launch/look_back_cut.h"

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
    // Under BATCH_INVARIANT with channels innermost a warp has 32 rows, so that groups do not depend on their number.
    cut_for_look_back(t, s, {1, s.steps, s.warps}, log2_warps - log2_up(ceil_div(s.time, warp_steps), log2_warps));
    return t;
}

}  // namespace flashscan::cuda
