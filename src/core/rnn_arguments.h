// SPDX-License-Identifier: Apache-2.0
// The arguments of plans for recurrent networks.
#pragma once

#include "core/arguments.h"
#include "core/rnn_problem.h"

namespace flashscan {

// The pointers that a kernel works on. Optional arguments that were not given are null.
struct RnnBuffers {
    const void* input = nullptr;
    const void* weight = nullptr;
    const void* bias = nullptr;
    void* output = nullptr;  // only read in backward
    const void* state_in = nullptr;
    void* state_out = nullptr;
    int32_t* iterations = nullptr;  // this and `residual` hold 0 when the kernel is called
    float* residual = nullptr;
    void* reserve = nullptr;  // only read in backward
    const uint8_t* reset = nullptr;
    const void* seq_offsets = nullptr;
    const int32_t* state_indices = nullptr;  // for kernels that take states where they lie
    const void* grad_output = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_input = nullptr;
    void* grad_weight = nullptr;
    void* grad_bias = nullptr;
    void* grad_state_in = nullptr;
    void* scratch = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> rnn_arguments(const RnnProblem& problem, Pass pass, size_t reserve_bytes,
                                        size_t scratch_bytes, bool scratch_required);

// The checked arguments of a call as the kernels take them.
RnnBuffers rnn_buffers(const Pointers& found);

}  // namespace flashscan
