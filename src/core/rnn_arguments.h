// SPDX-License-Identifier: Apache-2.0
// The arguments of plans for recurrent networks.
#pragma once

#include "core/arguments.h"
#include "core/rnn_problem.h"

namespace flashscan {

struct RnnBuffers : CommonBuffers {
    using CommonBuffers::CommonBuffers;
    const void *weight = nullptr, *bias = nullptr;
    int32_t* iterations = nullptr;  // this and `residual` hold 0 when the kernel is called
    float* residual = nullptr;
    void* reserve = nullptr;  // only read in backward
    void *grad_weight = nullptr, *grad_bias = nullptr;
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> rnn_arguments(const RnnProblem& problem, Pass pass, size_t reserve_bytes,
                                        size_t scratch_bytes, bool scratch_required);

// The checked arguments of a call as the kernels take them.
RnnBuffers rnn_buffers(const Pointers& found);

}  // namespace flashscan
