// SPDX-License-Identifier: Apache-2.0
// The kernels of gated layers; GatedCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

std::unique_ptr<GatedKernel> make_gated_decode(const GatedProblem& problem, const Options& options,
                                               std::string& refusal);
// Takes every problem.
std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options,
                                                std::string& refusal);

// In order of preference.
inline constexpr GatedCandidate gated_candidates[] = {{"decode", make_gated_decode}, {"chunked", make_gated_chunked}};

}  // namespace flashscan::cuda
