// SPDX-License-Identifier: Apache-2.0
// A family's pass on one rank of several, made of kernels of one GPU.
#pragma once

#include <memory>

#include "cuda/launch/selective_summary.h"

namespace flashscan::cuda {

// Make the kernel of one GPU for a problem.
using MakeLinear = std::unique_ptr<LinearKernel> (*)(const LinearProblem& problem, const Options& options);
using MakeGated = std::unique_ptr<GatedKernel> (*)(const GatedProblem& problem, const Options& options);
using MakeSelective = std::unique_ptr<SelectiveKernel> (*)(const SelectiveProblem& problem, const Options& options);
using MakeOperator = std::unique_ptr<OperatorKernel> (*)(const OperatorProblem& problem, const Options& options);

// `inner` computes the own steps of a rank; `make` makes kernels for groups of its rows. States are dense.
std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner, MakeLinear make);
std::unique_ptr<GatedKernel> make_gated_ranks(const GatedProblem& problem, const Options& options,
                                              std::unique_ptr<GatedKernel> inner, MakeGated make);
std::unique_ptr<SelectiveKernel> make_selective_ranks(const SelectiveProblem& problem, const Options& options,
                                                      std::unique_ptr<SummarisedSelective> inner, MakeSelective make);
// `make_linear` makes the kernel that joins gradients of numbers. `in_registers` tells whether a thread's registers
// hold an element, on all ranks alike.
std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, MakeOperator make,
                                                    MakeLinear make_linear, bool in_registers);
// Why gated layers do not run over these ranks; null where they do.
const char* why_no_gated_ranks(const GatedProblem& problem, const Options& options);

}  // namespace flashscan::cuda
