// SPDX-License-Identifier: Apache-2.0
// The teams of blocks of one pass of a fused recurrent network. They are chosen when a plan is made and launched by its
// calls.
#pragma once

#include <string>

#include "core/backend.h"
#include "cuda/rnn/fused/params.h"
#include "cuda/rnn/fused/tuning.h"

namespace flashscan::cuda {

// Chooses the teams and loads their kernel. Fills in `refusal` where no teams fit.
RnnTeams make_teams(const RnnProblem& problem, Pass pass, const Options& options, std::string& refusal);
std::string describe(const RnnTeams& teams);

// Bytes of the memory through which the teams of a grid exchange vectors; fill_ring gives it its initial contents.
size_t ring_bytes(const RnnTeams& teams);
void fill_ring(const RnnTeams& teams, void* ring, void* stream);

void launch(const RnnTeams& teams, const RnnFusedParams& params, void* stream);

}  // namespace flashscan::cuda
