// SPDX-License-Identifier: Apache-2.0
// Which fused kernel runs a recurrent network, and with how many blocks: pure choices by shape.
#pragma once

#include <span>

#include "core/rnn_problem.h"
#include "core/rounding.h"
#include "cuda/rnn/instances/fused_table.h"

namespace flashscan::cuda {

// The teams of one pass.
struct RnnTeams {
    Team kind{};
    const RnnFusedKernel* kernel = nullptr;  // null where no kernel holds a head
    int blocks = 0;                          // blocks of a team
    int64_t tiles = 0, jobs = 0;             // tiles of rows for each head; heads times tiles
    int64_t teams = 0;                       // teams that run at once
    int64_t waves() const { return ceil_div(jobs, teams); }
};

// `multiprocessors` is how many blocks run side by side. With `batch_invariant` the choice does not depend on `rows`.
RnnTeams choose_teams(std::span<const RnnFusedShape> shapes, Pass pass, int64_t head_dim, int64_t heads, int64_t rows,
                      int multiprocessors, bool batch_invariant);

// Estimates, within a third, of the microseconds of a step on an H200: for teams in all their waves of jobs, and for a
// network that alternates between products and cells.
double fused_step_us(const RnnTeams& teams, Pass pass);
double alternating_step_us(const RnnProblem& problem, Pass pass);

}  // namespace flashscan::cuda
