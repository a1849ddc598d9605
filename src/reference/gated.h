// SPDX-License-Identifier: Apache-2.0
// Gated layers as their definition reads: one row after another, one step after another, in double. It is the last
// candidate of the CPU backend and the oracle of the tests.
#pragma once

#include "core/backend.h"

namespace flashscan::reference {

// Takes every problem.
std::unique_ptr<GatedKernel> make_gated(const GatedProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::reference
