// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of the linear recurrence; LinearCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cpu {

// Parallel over rows and channels: each thread walks whole rows.
std::unique_ptr<LinearKernel> make_linear_stream(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal);
// Parallel over time: for few and long rows.
std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);

// The kernel of one rank of those that hold a sequence: `inner` computes its part, and its states come from the others.
std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner);

}  // namespace flashscan::cpu
