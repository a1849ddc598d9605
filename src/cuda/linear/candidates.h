// SPDX-License-Identifier: Apache-2.0
// The kernels of the linear recurrence; LinearCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

std::unique_ptr<LinearKernel> make_linear_decode(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_columns(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_short_rows(const LinearProblem& problem, const Options& options,
                                                     std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_rows(const LinearProblem& problem, const Options& options,
                                               std::string& refusal);
std::unique_ptr<LinearKernel> make_linear_few_long_rows(const LinearProblem& problem, const Options& options,
                                                        std::string& refusal);
// Takes every problem.
std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);

// In order of preference. "decode" is the first.
inline constexpr LinearCandidate linear_candidates[] = {
    {"decode", make_linear_decode},   {"short_rows", make_linear_short_rows},       {"rows", make_linear_rows},
    {"columns", make_linear_columns}, {"few_long_rows", make_linear_few_long_rows}, {"chunked", make_linear_chunked},
};

}  // namespace flashscan::cuda
