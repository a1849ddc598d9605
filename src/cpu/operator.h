// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of associative operators; OperatorCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cpu {

// Operators on numbers, on vectors and threads.
std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal);
// Matrix products: rows of the prefix in parallel.
std::unique_ptr<OperatorKernel> make_operator_matrices(const OperatorProblem& problem, const Options& options,
                                                       std::string& refusal);
// Affine maps step by step.
std::unique_ptr<OperatorKernel> make_operator_affine(const OperatorProblem& problem, const Options& options,
                                                     std::string& refusal);
// Custom operators: a batched callback for each level of a tree.
std::unique_ptr<OperatorKernel> make_operator_batched(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal);
// Custom operators: host functions on chains and pieces of time.
std::unique_ptr<OperatorKernel> make_operator_host(const OperatorProblem& problem, const Options& options,
                                                   std::string& refusal);

}  // namespace flashscan::cpu
