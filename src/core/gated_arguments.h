// SPDX-License-Identifier: Apache-2.0
// The arguments of plans of gated layers.
#pragma once

#include "core/arguments.h"
#include "core/gated_problem.h"

namespace flashscan {

// The pointers that a kernel works on. Optional arguments that were not given, and those that the layer does not have,
// are null.
struct GatedBuffers {
    const void *input = nullptr, *gate = nullptr, *second_gate = nullptr, *input_gate = nullptr, *output_gate = nullptr;
    const void *param = nullptr, *bias = nullptr;
    void* output = nullptr;   // only read in backward
    void* reserve = nullptr;  // h, where OUTPUT is not h; only read in backward
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const uint8_t* reset = nullptr;
    const void* seq_offsets = nullptr;
    const int32_t* state_indices = nullptr;  // for kernels that take states where they lie
    const void *grad_output = nullptr, *grad_state_out = nullptr;
    void *grad_input = nullptr, *grad_gate = nullptr, *grad_second_gate = nullptr;
    void *grad_input_gate = nullptr, *grad_output_gate = nullptr;
    void *grad_param = nullptr, *grad_bias = nullptr, *grad_state_in = nullptr;
    void* scratch = nullptr;

    // Backward reads h from here; it is null where nothing needs it.
    const void* states() const { return reserve != nullptr ? reserve : output; }
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> gated_arguments(const GatedProblem& problem, Pass pass, size_t reserve_bytes,
                                          size_t scratch_bytes, bool scratch_required);

// The checked arguments of a call as the kernels take them. Throws Error for those that only some gradients need.
GatedBuffers gated_buffers(const GatedProblem& problem, Pass pass, const Pointers& found);

}  // namespace flashscan
