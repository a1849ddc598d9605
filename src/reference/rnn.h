// SPDX-License-Identifier: Apache-2.0
// Recurrent networks as their definition reads: one sequence, one head, one step after another, in double. It is the
// last candidate of the CPU backend and the oracle of the tests.
#pragma once

#include "core/backend.h"

namespace flashscan::reference {

// Takes every problem.
std::unique_ptr<RnnKernel> make_rnn(const RnnProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::reference
