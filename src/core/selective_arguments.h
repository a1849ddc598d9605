// SPDX-License-Identifier: Apache-2.0
// The arguments of plans of selective scans.
#pragma once

#include "core/arguments.h"
#include "core/selective_problem.h"

namespace flashscan {

// The pointers that a kernel works on. Optional arguments that were not given are null.
struct SelectiveBuffers {
    const void *input = nullptr, *delta = nullptr, *output_gate = nullptr;
    const void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr, *bias = nullptr;
    void* output = nullptr;  // null in backward, and where STATE_OUT alone is wanted
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const uint8_t* reset = nullptr;
    const void* seq_offsets = nullptr;
    const int32_t* state_indices = nullptr;  // for kernels that take states where they lie
    const void *grad_output = nullptr, *grad_state_out = nullptr;
    void *grad_input = nullptr, *grad_delta = nullptr, *grad_output_gate = nullptr;
    void *grad_a = nullptr, *grad_b = nullptr, *grad_c = nullptr, *grad_d = nullptr, *grad_bias = nullptr;
    void* grad_state_in = nullptr;
    void* scratch = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> selective_arguments(const SelectiveProblem& problem, Pass pass, size_t scratch_bytes,
                                              bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
SelectiveBuffers selective_buffers(const SelectiveProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
