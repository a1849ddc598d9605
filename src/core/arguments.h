// SPDX-License-Identifier: Apache-2.0
// The arguments of one call: which a plan takes, how large they are, and the checks before a kernel sees them.
#pragma once

#include <span>
#include <vector>

#include "core/linear_problem.h"

namespace flashscan {

struct Argument {
    int32_t id = 0;
    void* data = nullptr;
    size_t bytes = 0;
};

// What a kernel works on. Optional arguments that were not given are null.
struct LinearBuffers {
    const void* input = nullptr;
    const void* gate = nullptr;
    void* output = nullptr;  // only read in backward
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const uint8_t* reset = nullptr;
    const void* seq_offsets = nullptr;
    const void* grad_output = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_input = nullptr;
    void* grad_gate = nullptr;
    void* grad_state_in = nullptr;
    void* scratch = nullptr;
};

enum class Presence {
    required,
    optional
};

// One argument of one pass.
struct ArgumentSpec {
    int32_t id = 0;
    const char* name = "";
    Presence presence = Presence::required;
    bool written = false;
    size_t bytes = 0;
    Dtype dtype = Dtype::f32;
    int64_t alignment = 1;
    // For tensors: where their elements lie, to tell interleaved tensors apart.
    bool is_tensor = false;
    Strides strides{};
};

// The arguments that `pass` of a plan for `problem` takes, SCRATCH last.
std::vector<ArgumentSpec> linear_arguments(const LinearProblem& problem, Pass pass, size_t scratch_bytes,
                                           bool scratch_required);

// Checks the arguments of a call against the specs and against each other. Throws Error; writes nothing.
LinearBuffers check_arguments(const LinearProblem& problem, Pass pass, std::span<const ArgumentSpec> specs,
                              std::span<const Argument> arguments);

}  // namespace flashscan
