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

// An operator on one rank of those that hold the sequence: `inner` does its part, with what comes from the others as
// its states; `make` makes the kernels that find it.
using OperatorMaker = std::unique_ptr<OperatorKernel> (*)(const OperatorProblem&, const Options&, std::string&);
std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, OperatorMaker make);

}  // namespace flashscan::cpu
