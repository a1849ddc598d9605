// SPDX-License-Identifier: Apache-2.0
// The choices and estimates of tuning.h. The constants were measured on an H200.
#include "cuda/rnn/fused/tuning.h"

#include <algorithm>

namespace flashscan::cuda {
namespace {

// The time of a step of a team, relative to that with 8 rows: on an H200 with D = 768 a team of 32 rows takes 2.1 times
// as long.
double step_time(const RnnFusedKernel& kernel) { return 0.6 + 0.05 * kernel.rows; }

}  // namespace

RnnTeams choose_teams(std::span<const RnnFusedShape> shapes, Pass pass, int64_t head_dim, int64_t heads, int64_t rows,
                      int multiprocessors, bool batch_invariant) {
    RnnTeams best;
    int best_dim = 0;
    for (const RnnFusedShape& shape : shapes) {
        if (shape.head_dim < head_dim) continue;
        if (best.kernel != nullptr && (shape.head_dim != best_dim || batch_invariant)) break;
        RnnTeams teams;
        teams.kind = shape.kind;
        teams.kernel = pass == Pass::forward ? &shape.forward : &shape.backward;
        teams.blocks = static_cast<int>(ceil_div(head_dim, teams.kernel->units));
        if (teams.blocks > multiprocessors) continue;
        teams.tiles = ceil_div(rows, teams.kernel->rows);
        teams.jobs = heads * teams.tiles;
        teams.teams = std::min<int64_t>(teams.jobs, multiprocessors / teams.blocks);
        const auto cost = [](const RnnTeams& t) { return static_cast<double>(t.waves()) * step_time(*t.kernel); };
        if (best.kernel != nullptr && cost(teams) >= cost(best)) continue;
        best = teams;
        best_dim = shape.head_dim;
    }
    return best;
}

double fused_step_us(const RnnTeams& teams, Pass pass) {
    const RnnFusedKernel& k = *teams.kernel;
    const double element_bytes = k.scatters ? 8.0 * k.units * teams.blocks : 2.0 * k.planes * k.depth;
    const bool forward = pass == Pass::forward;
    const double alone = teams.kind == Team::block     ? (forward ? 0.5 : 1.1)
                         : teams.kind == Team::cluster ? (forward ? 0.7 : 1.2)
                                                       : 1.1;
    // The bytes of vectors that a block takes in a microsecond. Those of f32 are fewer numbers, with more products
    // each.
    const double rate = k.planes < 3 ? 20e3 : forward ? 37e3 : 28e3;
    return static_cast<double>(teams.waves()) * (alone + k.rows * element_bytes / rate);
}

double alternating_step_us(const RnnProblem& p, Pass pass) {
    const bool forward = pass == Pass::forward;
    const auto multiply_adds = static_cast<double>(p.batch * p.weight_count());
    if (p.dtype == Dtype::f64) return 7.2 + multiply_adds * (forward ? 105e-9 : 210e-9);
    if (p.allow_tf32) return (forward ? 7 : 9) + multiply_adds * (forward ? 10e-9 : 22e-9);
    if (p.dtype == Dtype::f32) return 10 + multiply_adds * 90e-9;
    return (forward ? 6 : 8) + multiply_adds * (forward ? 5e-9 : 12e-9);
}

}  // namespace flashscan::cuda
