// SPDX-License-Identifier: Apache-2.0
// Plans of operators on elements in registers; OperatorCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cuda {

// Operators on numbers.
std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal);
// Products of matrices of up to 4 rows and 128 bytes.
std::unique_ptr<OperatorKernel> make_operator_tiny(const OperatorProblem& problem, const Options& options,
                                                   std::string& refusal);

}  // namespace flashscan::cuda
