// SPDX-License-Identifier: Apache-2.0
// The kernels of the linear recurrence; LinearCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

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

// In order of preference. "steps" is the first.
inline constexpr LinearCandidate linear_candidates[] = {
    {"steps", make_linear_steps}, {"rows", make_linear_rows},       {"columns", make_linear_columns},
    {"waves", make_linear_waves}, {"chunked", make_linear_chunked},
};

}  // namespace flashscan::cuda
