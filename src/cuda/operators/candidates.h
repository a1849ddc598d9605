// SPDX-License-Identifier: Apache-2.0
// The kernels of operators on numbers, tiny matrices and custom elements; OperatorCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Takes operators on numbers.
std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal);
// Takes products of matrices of up to 4 rows and 128 bytes, and affine maps with such matrices.
std::unique_ptr<OperatorKernel> make_operator_tiny(const OperatorProblem& problem, const Options& options,
                                                   std::string& refusal);
bool is_tiny(const OperatorProblem& problem);
// Take custom operators given as device code, which is compiled when the plan is made. The first scans elements in
// registers, the second combines pairs level by level of a tree.
std::unique_ptr<OperatorKernel> make_custom_scan(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
std::unique_ptr<OperatorKernel> make_custom_tree(const OperatorProblem& problem, const Options& options,
                                                 std::string& refusal);
// Takes custom operators with a batched callback, which is called for each level of a tree.
std::unique_ptr<OperatorKernel> make_custom_batched(const OperatorProblem& problem, const Options& options,
                                                    std::string& refusal);

}  // namespace flashscan::cuda
