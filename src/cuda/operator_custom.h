// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of custom operators; OperatorCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cuda {

// Device code compiled when the plan is made: in registers, or level by level of a tree.
std::unique_ptr<OperatorKernel> make_custom_scan(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
std::unique_ptr<OperatorKernel> make_custom_tree(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
// A batched callback for each level of a tree.
std::unique_ptr<OperatorKernel> make_custom_batched(const OperatorProblem& problem, const Options& options,
                                                    std::string& refusal);

}  // namespace flashscan::cuda
