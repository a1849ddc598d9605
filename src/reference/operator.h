// SPDX-License-Identifier: Apache-2.0
// Associative operators as their definition reads: one sequence, one chain, one element after another, in double. It is
// the last candidate of the CPU backend and the oracle of the tests.
#pragma once

#include "core/backend.h"

namespace flashscan::reference {

// Takes every problem but custom operators that have device code alone.
std::unique_ptr<OperatorKernel> make_operator(const OperatorProblem& problem, const Options& options,
                                              std::string& refusal);

}  // namespace flashscan::reference
