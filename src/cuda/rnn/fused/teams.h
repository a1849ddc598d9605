// SPDX-License-Identifier: Apache-2.0
// The teams of blocks of one pass of a fused recurrent network. They are chosen when a plan is made and launched by its
// calls.
#pragma once

#include <string>

#include "core/backend.h"
#include "cuda/launch/launch.h"
#include "cuda/rnn/fused/params.h"
#include "cuda/rnn/fused/tuning.h"

namespace flashscan::cuda {

// Teams as they are launched.
struct LoadedTeams : RnnTeams {
    LaunchShape shape;
    size_t ring_bytes = 0;  // of the memory through which the teams of a grid exchange vectors
};

// Chooses the teams and loads their kernel. Fills in `refusal` where no teams fit.
LoadedTeams make_teams(const RnnProblem& problem, Pass pass, const Options& options, std::string& refusal);
std::string describe(const RnnTeams& teams);

// Gives the memory of an exchange its initial contents.
void fill_ring(const LoadedTeams& teams, void* ring, void* stream);

}  // namespace flashscan::cuda
