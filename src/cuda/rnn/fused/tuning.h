// SPDX-License-Identifier: Apache-2.0
// Which fused kernel runs a recurrent network, and with how many blocks: pure choices by shape.
#pragma once

#include <span>

#include "core/rounding.h"
#include "cuda/rnn/instances/fused_table.h"

namespace flashscan::cuda {

// The teams of one pass.
struct RnnTeams {
    Team kind{};
    const RnnFusedKernel* kernel = nullptr;  // null: none holds the head
    int blocks = 0;                          // of a team
    int64_t tiles = 0, jobs = 0;             // of rows, per head; heads times tiles
    int64_t teams = 0;                       // at work at once
    int64_t waves() const { return ceil_div(jobs, teams); }
};

// `multiprocessors`: blocks that run side by side. `batch_invariant`: the choice does not depend on `rows`.
RnnTeams choose_teams(std::span<const RnnFusedShape> shapes, Pass pass, int64_t head_dim, int64_t heads, int64_t rows,
                      int multiprocessors, bool batch_invariant);

// Microseconds of a step on an H200, within a third: of teams in all their waves, and of a network that alternates with
// products of so many multiply-adds.
double fused_step_us(const RnnTeams& teams, Pass pass);
double alternating_step_us(double multiply_adds, Dtype dtype, Pass pass);

}  // namespace flashscan::cuda
