// SPDX-License-Identifier: Apache-2.0
// Teams of blocks of one pass of a fused recurrent network: made with a plan, launched by its calls.
#pragma once

#include <string>

#include "core/backend.h"
#include "cuda/rnn/fused/params.h"
#include "cuda/rnn/fused/tuning.h"

namespace flashscan::cuda {

// Loads their kernel. Fills `refusal` where there are none.
RnnTeams make_teams(const RnnProblem& problem, Pass pass, const Options& options, std::string& refusal);
std::string describe(const RnnTeams& teams);

// What blocks of a grid hand each other a step's vectors in, and how it begins.
size_t ring_bytes(const RnnTeams& teams);
void fill_ring(const RnnTeams& teams, void* ring, void* stream);

void launch(const RnnTeams& teams, const RnnFusedParams& params, void* stream);

}  // namespace flashscan::cuda
