// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of recurrent networks: plain data, no CUDA types. "alternating" uses them as they are,
// "persistent" and "fused" as a part of theirs.
//
// A row is an entry of the batch; packed sequences follow each other in one row. An element is a (row, head, d) of the
// states. Steps are counted in the order of computation. The operands of products have the head dim `padded`, which is
// D rounded up, with zeros past D, so that every column starts aligned:
//
//     factors     [rows, H, padded]           h, or r h, before a step, in dtype
//     products    [rows, H, G, padded]        R times factors, in the states' dtype
//     gradients   [rows, H, G, padded]        gradients of products, in dtype
//     through     [rows, H, padded]           R^T times gradients, in the states' dtype
//     weights     [H, G, padded, padded]      R
//     kept        [T, B, kept, H, D]          RESERVE
#pragma once

#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

struct RnnTensorStrides {
    int64_t state = 0, batch = 0, time = 0;
};

struct RnnParams {
    int64_t rows = 0, time = 0, dim = 0, padded = 0;
    int64_t width = 0;       // H D
    int64_t state_rows = 0;  // rows of STATE_IN and STATE_OUT
    RnnTensorStrides input_strides, output_strides;
    int32_t reverse = 0;
    int32_t output_states = 1;
    double clip = 0;  // the limit of the gradients that pass R; infinite where they are not clipped

    const uint8_t* reset = nullptr;
    const int64_t* sequence = nullptr;  // [T], the sequence of each t or -1; null when not packed

    const void* state_in = nullptr;  // this and the following pointers are null where the call has no such tensor
    // [S, rows, H, D]: the states before the next step. Backward: their gradients, followed, for cells whose first gate
    // acts twice, by [rows, H, D]: that gate's gradient without the part that comes through the product.
    void* states = nullptr;
    void* kept = nullptr;
    void* factors = nullptr;
    void* reset_factors = nullptr;  // r h, for cells that reset before the product

    // Forward.
    const void* input = nullptr;
    const void* bias = nullptr;  // in the states' dtype
    const void* products = nullptr;
    void* output = nullptr;  // OUTPUT, which backward reads
    void* state_out = nullptr;

    // Backward.
    const void* grad_output = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_input = nullptr;
    void* grad_state_in = nullptr;
    void* gradients = nullptr;
    void* through = nullptr;
    void* bias_sums = nullptr;  // [biases, rows, H, D]: the sums over the steps so far
};

// Packed sequences, and rows without a step.
struct RnnSequenceParams {
    SequenceOffsets offsets;
    int64_t time = 0;
    int64_t* sequence = nullptr;  // output of rnn_find_sequences
};

// Arguments of rnn_pass_states, which copies states [states, rows, width] of rows without steps.
struct RnnPassParams {
    RnnSequenceParams sequences;
    int64_t states = 0, rows = 0, width = 0;
    const void* from = nullptr;  // null for zeros
    void* to = nullptr;
};

// Arguments of the copies between WEIGHT or its gradient, [G, H, D, D], and the padded form [H, G, padded, padded].
struct RnnWeightParams {
    const void* from = nullptr;
    void* to = nullptr;
    int64_t gates = 0, heads = 0, dim = 0, padded = 0;
};

// Arguments of rnn_widen_bias, which converts BIAS [biases, width], and of rnn_sum_bias, which sums its gradient
// [biases, rows, width] over rows.
struct RnnBiasParams {
    const void* from = nullptr;
    void* to = nullptr;
    int64_t biases = 0, rows = 0, width = 0;
};

}  // namespace flashscan::cuda
