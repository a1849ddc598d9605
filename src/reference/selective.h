// SPDX-License-Identifier: Apache-2.0
// Selective scans as their definition reads: one channel after another, one step after another, in double. It is the
// last candidate of the CPU backend and the oracle of the tests.
#pragma once

#include "core/backend.h"

namespace flashscan::reference {

// Takes every problem.
std::unique_ptr<SelectiveKernel> make_selective(const SelectiveProblem& problem, const Options& options,
                                                std::string& refusal);

}  // namespace flashscan::reference
