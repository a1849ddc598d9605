// SPDX-License-Identifier: Apache-2.0
// The arguments of plans for associative operators.
#pragma once

#include "core/arguments.h"
#include "core/operator_problem.h"

namespace flashscan {

// The pointers that a kernel works on. Optional arguments that were not given are null.
struct OperatorBuffers {
    const void* input = nullptr;
    const void* gate = nullptr;
    void* output = nullptr;  // only read in backward
    void* index = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const void* seq_offsets = nullptr;
    const void* grad_output = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_input = nullptr;
    void* grad_gate = nullptr;
    void* grad_state_in = nullptr;
    void* scratch = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> operator_arguments(const OperatorProblem& problem, Pass pass, size_t scratch_bytes,
                                             bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
OperatorBuffers operator_buffers(const OperatorProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
