// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of selective scans share: plain data and function pointers. "Numbers" are numbers of
// the arithmetic, W of them a vector.
#pragma once

#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

// Steps [begin, begin + length) of row `batch`, whose states are row `state`.
struct SelectiveSequence {
    int64_t batch, begin, length, state;
};

struct SelectiveCall {
    // Tensors of the call; `data` is null for what was not given or is not wanted, and for constant b and c.
    Tensor input, delta, gate, b, c, output;
    Tensor grad_output, grad_input, grad_delta, grad_gate;
    // Numbers: A and constant B and C [channels][states], D and BIAS [channels], states [rows][channels][states]. Null:
    // zeros, or not wanted.
    const char *a, *constant_b, *constant_c, *d, *bias;
    const char *first_state, *grad_last_state;
    char *last_state, *grad_first_state;
    const uint8_t* reset;
    int64_t time, channels, states, group_channels, groups;
    bool softplus, ascending;
    const SelectiveSequence* sequences;
};

// Channels [begin, end) of one group in sequences [first, last).
struct SelectiveTask {
    int64_t first, last, begin, end;
    char* buffer;  // forward_numbers() or backward_numbers() of them
    // Backward: where sums of these sequences go, numbers [channels][states] and [channels]; and those over these channels
    // of the gradients of b and c, [rows][time][groups][states], null where b or c is constant.
    char *sum_a, *sum_b, *sum_c, *sum_d, *sum_bias;
    char *step_b, *step_c;
};

struct SelectiveKernels {
    int64_t width;  // W: most channels of a forward task, and what those of backward are best a multiple of
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
