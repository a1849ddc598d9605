// SPDX-License-Identifier: Apache-2.0
// The host code and the kernels of selective scans share plain data and function pointers. "Numbers" have the
// type of the arithmetic, and a vector has W of them.
#pragma once

#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

// A sequence: the steps [begin, begin + length) of row `batch`. Its initial and final states are row `state`.
struct SelectiveSequence {
    int64_t batch, begin, length, state;
};

struct SelectiveCall {
    // Tensors of the call. `data` is null for what was not given or is not wanted, and for a constant b or c.
    Tensor input, delta, gate, b, c, output;
    Tensor grad_output, grad_input, grad_delta, grad_gate;
    // These have numbers: A, constant B and constant C are [channels][states], D and BIAS are [channels], and states
    // are [rows][channels][states]. A null input stands for zeros, and a null output is not wanted.
    const char *a, *constant_b, *constant_c, *d, *bias;
    const char *first_state, *grad_last_state;
    char *last_state, *grad_first_state;
    const uint8_t* reset;
    int64_t time, channels, states, group_channels, groups;
    bool softplus, ascending;
    const SelectiveSequence* sequences;
};

// The work of one thread: channels [begin, end) of one group in the sequences [first, last).
struct SelectiveTask {
    int64_t first, last, begin, end;
    char* buffer;  // has forward_numbers() or backward_numbers() numbers
    // In backward: sum_... receive the sums over these sequences, numbers [channels][states] or [channels]. step_b and
    // step_c receive the gradients of b and c summed over these channels, [rows][time][groups][states]; they are null
    // where b or c is constant.
    char *sum_a, *sum_b, *sum_c, *sum_d, *sum_bias;
    char *step_b, *step_c;
};

struct SelectiveKernels {
    int64_t width;  // W: a forward task has at most so many channels, and a backward task best a multiple of it
    void (*forward)(const SelectiveCall&, const SelectiveTask&);
    void (*backward)(const SelectiveCall&, const SelectiveTask&);
    int64_t (*forward_numbers)(int64_t states);
    int64_t (*backward_numbers)(int64_t states, int64_t time, int64_t channels);
};

namespace baseline {
SelectiveKernels selective_kernels(bool wide, bool b_per_step, bool c_per_step);
}
namespace avx2 {
SelectiveKernels selective_kernels(bool wide, bool b_per_step, bool c_per_step);
}
namespace avx512 {
SelectiveKernels selective_kernels(bool wide, bool b_per_step, bool c_per_step);
}

}  // namespace flashscan::cpu
