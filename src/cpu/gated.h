// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of gated layers; GatedCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cpu {

// Parallel over rows and channels: each thread walks whole rows.
std::unique_ptr<GatedKernel> make_gated_stream(const GatedProblem& problem, const Options& options,
                                               std::string& refusal);
// Parallel over time: for few and long rows.
std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options,
                                                std::string& refusal);

// The kernel of one rank of those that hold a sequence: `inner` computes its part, and its states come from the others.
std::unique_ptr<GatedKernel> make_gated_ranks(const GatedProblem& problem, const Options& options,
                                              std::unique_ptr<GatedKernel> inner);

}  // namespace flashscan::cpu
