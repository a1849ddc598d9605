// SPDX-License-Identifier: Apache-2.0
// The arguments of plans of gated layers.
#pragma once

#include "core/arguments.h"
#include "core/gated_problem.h"

namespace flashscan {

struct GatedBuffers : CommonBuffers {
    using CommonBuffers::CommonBuffers;
    const void *gate = nullptr, *second_gate = nullptr, *input_gate = nullptr, *output_gate = nullptr;
    const void *param = nullptr, *bias = nullptr;
    void* reserve = nullptr;  // h, where OUTPUT is not h; only read in backward
    void *grad_gate = nullptr, *grad_second_gate = nullptr, *grad_input_gate = nullptr, *grad_output_gate = nullptr;
    void *grad_param = nullptr, *grad_bias = nullptr;

    // Backward reads h from here; it is null where nothing needs it.
    const void* states() const { return reserve != nullptr ? reserve : output; }
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> gated_arguments(const GatedProblem& problem, Pass pass, size_t reserve_bytes,
                                          size_t scratch_bytes, bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
GatedBuffers gated_buffers(const GatedProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
