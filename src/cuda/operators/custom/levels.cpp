// SPDX-License-Identifier: Apache-2.0
// The levels of a custom operator's tree (levels.h).
#include "cuda/operators/custom/levels.h"

#include <algorithm>

#include "cuda/launch/sequence_offsets.h"

namespace flashscan::cuda {
namespace {

TreeLevel level(const TreeParams& p, TreeSweep sweep, int k) {
    const int64_t size = (p.time + p.has_state) >> k;
    TreeLevel level{sweep, k, 0, 0};
    switch (sweep) {
    case TreeSweep::up: level.per_row = size / 2; break;
    case TreeSweep::down: level.per_row = (size - 1) / 2; break;
    case TreeSweep::rest: level.per_row = p.packed() || (size % 2 == 1 && size > 1) ? 1 : 0; break;
    }
    const bool of_levels = p.packed() && sweep != TreeSweep::rest;
    level.count = of_levels ? p.room(k + 1) * p.channels : p.chains() * level.per_row;
    return level;
}

}  // namespace

int64_t tree_room_above(const TreeParams& p) {
    int64_t sum = 0;
    for (int k = 1; k < tree_levels; ++k) sum += p.room(k) * p.channels;
    return sum;
}

TreeParams tree_params(const OperatorProblem& p, const void* offsets, bool has_state) {
    TreeParams t;
    t.bytes = p.custom.element_bytes;
    t.rows = p.state_rows();
    t.time = p.time;
    t.channels = p.channels;
    const OperatorProblem::Steps steps = p.steps();
    t.batch_step = steps.batch, t.time_step = steps.time, t.channel_step = steps.channels;
    t.offsets = offsets_of(p, offsets);
    t.has_state = has_state ? 1 : 0;
    t.reverse = p.direction == Direction::reverse ? 1 : 0;
    t.exclusive = p.mode == OperatorMode::exclusive ? 1 : 0;
    t.is_reduction = p.is_reduction() ? 1 : 0;
    for (int k = 1; k + 1 < tree_levels; ++k) t.level_at[k + 1] = t.level_at[k] + t.room(k) * t.channels;
    return t;
}

int tree_height(const TreeParams& p) {
    int height = 0;
    while ((p.time + p.has_state) >> height > 0) ++height;
    return p.chains() > 0 ? height : 0;
}

std::vector<TreeLevel> tree_sweep(const TreeParams& p, TreeSweep sweep) {
    std::vector<TreeLevel> list;
    for (int k = 0; k < tree_height(p); ++k) list.push_back(level(p, sweep, k));
    std::erase_if(list, [](const TreeLevel& at) { return at.count == 0; });
    if (sweep != TreeSweep::up) std::reverse(list.begin(), list.end());
    return list;
}

}  // namespace flashscan::cuda
