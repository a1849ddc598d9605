// SPDX-License-Identifier: Apache-2.0
// The kernels of operators on numbers, tiny matrices and custom elements; OperatorCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Operators on numbers.
std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal);
// Products of matrices of up to 4 rows and 128 bytes.
std::unique_ptr<OperatorKernel> make_operator_tiny(const OperatorProblem& problem, const Options& options,
                                                   std::string& refusal);
// Device code compiled when the plan is made: in registers, or level by level of a tree.
std::unique_ptr<OperatorKernel> make_custom_scan(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
std::unique_ptr<OperatorKernel> make_custom_tree(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
// A batched callback for each level of a tree.
std::unique_ptr<OperatorKernel> make_custom_batched(const OperatorProblem& problem, const Options& options,
                                                    std::string& refusal);

}  // namespace flashscan::cuda
