// SPDX-License-Identifier: Apache-2.0
// The kernel for chains of matrices and affine maps; an OperatorCandidate::make function.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

std::unique_ptr<OperatorKernel> make_operator_matrices(const OperatorProblem& problem, const Options& options,
                                                       std::string& refusal);

}  // namespace flashscan::cuda
