// SPDX-License-Identifier: Apache-2.0
// The kernels of the linear recurrence; LinearCandidate::make functions.
#pragma once

#include <span>

#include "core/backend.h"

namespace flashscan::cuda {

// The list of them, in order of preference; "steps" is the first.
std::span<const LinearCandidate> linear_candidates();

std::unique_ptr<LinearKernel> make_linear_steps(const LinearProblem& problem, const Options& options,
                                                std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_columns(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_rows(const LinearProblem& problem, const Options& options,
                                               std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_waves(const LinearProblem& problem, const Options& options,
                                                std::string& refusal);
// Takes every problem.
std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);

}  // namespace flashscan::cuda
