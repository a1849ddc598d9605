// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

std::unique_ptr<LinearKernel> make_linear_stream(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal);
// Takes every problem, except where rows must be summed at every step.
std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal);

}  // namespace flashscan::cuda
