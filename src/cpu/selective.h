// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cpu {

// Vectors of neighbouring channels; refuses complex matrices.
std::unique_ptr<SelectiveKernel> make_selective_vectors(const SelectiveProblem& problem, const Options& options,
                                                        std::string& refusal);

// One rank of those that hold the sequence: `inner` does its part, with what comes from the others as its states.
std::unique_ptr<SelectiveKernel> make_selective_ranks(const SelectiveProblem& problem, const Options& options,
                                                      std::unique_ptr<SelectiveKernel> inner);

}  // namespace flashscan::cpu
