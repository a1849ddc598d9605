// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cpu {

// Vectors of neighbouring channels; refuses complex matrices.
std::unique_ptr<SelectiveKernel> make_selective_vectors(const SelectiveProblem& problem, const Options& options,
                                                        std::string& refusal);

}  // namespace flashscan::cpu
