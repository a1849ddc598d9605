// SPDX-License-Identifier: Apache-2.0
// The arguments of plans of selective scans.
#pragma once

#include "core/arguments.h"
#include "core/selective_problem.h"

namespace flashscan {

// Backward does not read OUTPUT, and it is null there; forward it is null where a rank wants STATE_OUT alone.
struct SelectiveBuffers : CommonBuffers {
    using CommonBuffers::CommonBuffers;
    const void *delta = nullptr, *output_gate = nullptr;
    const void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr, *bias = nullptr;
    void *grad_delta = nullptr, *grad_output_gate = nullptr;
    void *grad_a = nullptr, *grad_b = nullptr, *grad_c = nullptr, *grad_d = nullptr, *grad_bias = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> selective_arguments(const SelectiveProblem& problem, Pass pass, size_t scratch_bytes,
                                              bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
SelectiveBuffers selective_buffers(const SelectiveProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
