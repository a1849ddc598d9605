// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of recurrent networks share: plain data and function pointers, so that files built
// for different instruction sets have nothing else in common. "Numbers" have the type of the arithmetic, and a vector
// has W of them. `depth` is D rounded up to whole vectors, and `width` is D rounded up to whole panels of two vectors.
#pragma once

#include "cpu/kernels/linear.h"
#include "math/cell_table.h"

namespace flashscan::cpu {

// A tensor in memory, with strides in elements. `state` is the stride between the states of OUTPUT or the gates of
// INPUT.
struct RnnTensor {
    char* data;
    Number number;
    int64_t state, batch, time;
};

// A sequence: the steps [begin, begin + length) of row `batch`. Its initial and final states are row `state`.
struct RnnSequence {
    int64_t batch, begin, length, state;
};

struct RnnCall {
    RnnTensor input;  // GRAD|INPUT in backward; null in a backward call that wants neither it nor GRAD|WEIGHT
    RnnTensor output, grad_output;
    // Dense [S][state_rows][heads][D] numbers. A null input stands for zeros, and a null output is not wanted.
    const char *state_in, *grad_state_out;
    char *state_out, *grad_state_in;
    const uint8_t* reset;
    bool ascending;
    // RESERVE: for each step of each row of the batch and each head `planes` times D numbers, which are what the cell
    // keeps for backward, without h where OUTPUT holds it. Null where it is not wanted.
    char* reserve;
    int64_t planes;
    int64_t time, heads, dim, state_rows, output_states;
    double clip;
    const RnnSequence* sequences;  // sorted, the longest first
    int64_t num_sequences;
    int64_t depth, width;
    // WEIGHT and GRAD|WEIGHT are [G][heads][D][D]; BIAS and GRAD|BIAS are [biases][heads][D]. A null input stands for
    // zeros, and a null output is not wanted.
    const char *weight, *bias;
    char *grad_weight, *grad_bias;
    Number weight_number;
    // These are in scratch. panels has for each head `panel_numbers` numbers: the matrix that a step multiplies by;
    // once the steps are done its memory is used for sums. bias_numbers is [biases][heads][depth]. bias_sums has the
    // same shape for each sequence, in their order.
    char *panels, *bias_numbers, *bias_sums;
    int64_t panel_numbers;
    char* weight_sums;  // of diagonals, [sequences][G][depth]; null where they are not wanted
    bool direct;        // forward reads WEIGHT itself (rnn_direct.h), and there are no panels
};

// Sequences [begin, end) of one head. `members` threads walk them together; each owns a share of the head's elements
// and of the columns of a product. wait(barrier) returns when all of them have called it.
struct RnnBlock {
    int64_t head, begin, end;
    char* buffer;  // has block_numbers() numbers
    int64_t member, members;
    void (*wait)(void* barrier);
    void* barrier;
};

// Rows [begin, end) of the gradient of one gate's matrix.
struct RnnSlice {
    int64_t head, gate, begin, end;
    char* buffer;  // has slice_numbers() numbers
};

// Units [begin, end) of a sequence of a network whose matrices are diagonals; begin is a multiple of W.
struct RnnStrip {
    int64_t sequence, begin, end;
    char* buffer;  // has diagonal_numbers() numbers
};

struct RnnKernels {
    int64_t vector_bytes;
    int64_t kept;  // how many numbers backward needs of each element and step
    bool keeps_h;  // says whether the last of them is h
    // Copies WEIGHT of one gate of one head to the panels for forward or for backward.
    void (*pack_weight)(const RnnCall&, int64_t head, int64_t gate, bool backward);
    void (*pack_bias)(const RnnCall&);
    void (*forward)(const RnnCall&, const RnnBlock&);
    // Computes all of backward but the sums over time: writes `input` and bias_sums.
    void (*backward)(const RnnCall&, const RnnBlock&);
    // Computes a slice of GRAD|WEIGHT from `input`, OUTPUT and RESERVE; forms the sums in the memory of panels.
    void (*weight_gradient)(const RnnCall&, const RnnSlice&);
    void (*bias_gradient)(const RnnCall&);
    int64_t (*block_numbers)(const RnnCall&, int64_t sequences, bool backward);
    int64_t (*slice_numbers)(const RnnCall&, int64_t rows);
    int64_t (*panel_numbers)(const RnnCall&, bool backward);
    // Those of diagonals (rnn_diagonal.h), in the same order.
    void (*pack_diagonal)(const RnnCall&);
    void (*diagonal_forward)(const RnnCall&, const RnnStrip&);
    void (*diagonal_backward)(const RnnCall&, const RnnStrip&);
    void (*diagonal_gradient)(const RnnCall&);
    int64_t (*diagonal_numbers)(int64_t units, bool backward);
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
