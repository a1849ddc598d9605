// SPDX-License-Identifier: Apache-2.0
// A plan's kernel of the linear recurrence, made of the passes (pass.h) that were chosen for it.
#pragma once

#include <memory>
#include <vector>

#include "core/backend.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {

// The passes that a call may take, in order of preference; the last one takes tensors of any alignment.
std::unique_ptr<LinearKernel> make_linear_kernel(const LinearProblem& problem, const Options& options,
                                                 PassVariants forward, PassVariants backward);

}  // namespace flashscan::cuda
