// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of recurrent networks share: plain data and function pointers, so that files built
// for different instruction sets have nothing else in common. "Numbers" are numbers of the arithmetic, W of them a
// vector; `depth` is D rounded up to whole vectors, `width` to whole panels of two.
#pragma once

#include "cpu/kernels/linear.h"
#include "math/cell_table.h"

namespace flashscan::cpu {

// A tensor in memory; strides in elements. `state` is the stride of the states of OUTPUT and of the gates of INPUT.
struct RnnTensor {
    char* data;
    Number number;
    int64_t state, batch, time;
};

// Steps [begin, begin + length) of row `batch`, whose states are row `state`.
struct RnnSequence {
    int64_t batch, begin, length, state;
};

struct RnnCall {
    RnnTensor input;  // or GRAD|INPUT; null in a backward call that wants neither it nor GRAD|WEIGHT
    RnnTensor output, grad_output;
    // Dense [S][state_rows][heads][D] numbers; null: zeros, or not wanted.
    const char *state_in, *grad_state_out;
    char *state_out, *grad_state_in;
    const uint8_t* reset;
    bool ascending;
    // For each step of each row of the batch and each head `planes` times D numbers: what the cell keeps, less h where
    // OUTPUT holds it. Null: not wanted.
    char* reserve;
    int64_t planes;
    int64_t time, heads, dim, state_rows, output_states;
    double clip;
    const RnnSequence* sequences;  // longest first
    int64_t num_sequences;
    int64_t depth, width;
    // WEIGHT, GRAD|WEIGHT [G][heads][D][D]; BIAS, GRAD|BIAS [biases][heads][D]. Null: zeros, or not wanted.
    const char *weight, *bias;
    char *grad_weight, *grad_bias;
    Number weight_number;
    // In scratch. panels: for each head `panel_numbers`, the matrix that a step multiplies by; free once the steps are
    // done. bias_numbers: [biases][heads][depth]. bias_sums: the same for each sequence, in their order.
    char *panels, *bias_numbers, *bias_sums;
    int64_t panel_numbers;
    bool direct;  // forward multiplies by WEIGHT as it lies, and there are no panels
};

// Sequences [begin, end) of one head. `members` threads walk them together, each with a share of the head's elements and of
// a product's columns; wait(barrier) returns when all of them have called it.
struct RnnBlock {
    int64_t head, begin, end;
    char* buffer;  // block_numbers() of them
    int64_t member, members;
    void (*wait)(void* barrier);
    void* barrier;
};

// Rows [begin, end) of the gradient of one gate's matrix.
struct RnnSlice {
    int64_t head, gate, begin, end;
    char* buffer;  // slice_numbers() of them
};

struct RnnKernels {
    int64_t vector_bytes;
    int64_t kept;  // numbers that backward needs of an element's step
    bool keeps_h;  // the last of them is h
    // Fills panels for the steps of forward or of backward: one gate of one head.
    void (*pack_weight)(const RnnCall&, int64_t head, int64_t gate, bool backward);
    void (*pack_bias)(const RnnCall&);
    void (*forward)(const RnnCall&, const RnnBlock&);
    // Backward for all but the sums: fills input and bias_sums.
    void (*backward)(const RnnCall&, const RnnBlock&);
    // From input, OUTPUT and RESERVE; uses panels for the sums.
    void (*weight_gradient)(const RnnCall&, const RnnSlice&);
    void (*bias_gradient)(const RnnCall&);
    int64_t (*block_numbers)(const RnnCall&, int64_t sequences, bool backward);
    int64_t (*slice_numbers)(const RnnCall&, int64_t rows);
    int64_t (*panel_numbers)(const RnnCall&, bool backward);
};

namespace baseline {
RnnKernels rnn_kernels(Cell cell, bool wide);
}
namespace avx2 {
RnnKernels rnn_kernels(Cell cell, bool wide);
}
namespace avx512 {
RnnKernels rnn_kernels(Cell cell, bool wide);
}

}  // namespace flashscan::cpu
