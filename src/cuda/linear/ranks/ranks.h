// SPDX-License-Identifier: Apache-2.0
// The linear recurrence on one rank of several.
#pragma once

#include <memory>

#include "core/backend.h"

namespace flashscan::cuda {

// Makes the kernel of one GPU for a problem.
using MakeLinear = std::unique_ptr<LinearKernel> (*)(const LinearProblem& problem, const Options& options);

// `inner` computes the own steps of a rank; `make` makes kernels for groups of its rows.
std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner, MakeLinear make);

}  // namespace flashscan::cuda
