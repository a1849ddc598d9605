// SPDX-License-Identifier: Apache-2.0
// The arguments of plans for associative operators.
#pragma once

#include "core/arguments.h"
#include "core/operator_problem.h"

namespace flashscan {

struct OperatorBuffers : CommonBuffers {
    using CommonBuffers::CommonBuffers;
    const void* gate = nullptr;
    void* index = nullptr;
    void* grad_gate = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> operator_arguments(const OperatorProblem& problem, Pass pass, size_t scratch_bytes,
                                             bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
OperatorBuffers operator_buffers(const OperatorProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
