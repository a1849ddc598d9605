// SPDX-License-Identifier: Apache-2.0
// The arguments of linear recurrence plans.
#pragma once

#include "core/arguments.h"
#include "core/linear_problem.h"

namespace flashscan {

struct LinearBuffers : CommonBuffers {
    using CommonBuffers::CommonBuffers;
    const void* gate = nullptr;
    void* grad_gate = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> linear_arguments(const LinearProblem& problem, Pass pass, size_t scratch_bytes,
                                           bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
LinearBuffers linear_buffers(const LinearProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
