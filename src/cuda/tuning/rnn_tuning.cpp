// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/rnn_tuning.h"

#include <algorithm>

namespace flashscan::cuda {
namespace {

// Time of a step of a team in units of that with 8 rows.
double step_time(const RnnFusedShape& shape) { return 1 + 0.3 * (shape.forward.rows / 8 - 1); }

}  // namespace

RnnTeams choose_teams(std::span<const RnnFusedShape> shapes, int64_t head_dim, int64_t heads, int64_t rows,
                      int multiprocessors, bool batch_invariant) {
    RnnTeams best;
    for (const RnnFusedShape& shape : shapes) {
        if (shape.head_dim < head_dim) continue;
        if (best.shape != nullptr && (shape.head_dim != best.shape->head_dim || batch_invariant)) break;
        RnnTeams teams;
        teams.shape = &shape;
        teams.blocks = static_cast<int>(ceil_div(head_dim, shape.forward.units));
        if (teams.blocks > multiprocessors) break;
        teams.tiles = ceil_div(rows, shape.forward.rows);
        teams.jobs = heads * teams.tiles;
        teams.teams = std::min<int64_t>(teams.jobs, multiprocessors / teams.blocks);
        const auto cost = [](const RnnTeams& t) { return static_cast<double>(t.waves()) * step_time(*t.shape); };
        if (best.shape == nullptr || cost(teams) < cost(best)) best = teams;
    }
    return best;
}

}  // namespace flashscan::cuda
