// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel "decode" of recurrent networks: plain data, no CUDA types.
#pragma once

#include "cuda/device/tile/step_rows.h"
#include "cuda/rnn/params.h"

namespace flashscan::cuda {

// rnn_step_rows: batch rows that a warp computes for its unit.
inline constexpr int rnn_step_rows = 4;
inline constexpr int rnn_step_warps = 32;      // the most warps of a block
inline constexpr int rnn_step_most_rows = 16;  // the most batch rows of a call
// For the kernels that hold R in registers (few_rows.cuh, tensor_cores.cuh): the most units of a head; the most warps
// of a block of few_rows.cuh; the most rows of R (gates x units) of a block of tensor_cores.cuh.
inline constexpr int rnn_step_direct_dim = 1024, rnn_step_direct_warps = 8, rnn_step_matrix_rows = 32;
// For tensor_cores.cuh: the k of a k-tile; the most k-tiles of a warp; the most warps of a block, which together hold
// all k of the largest heads.
inline constexpr int rnn_step_matrix_depth = 32, rnn_step_matrix_pieces = 2;
inline constexpr int rnn_step_matrix_warps = rnn_step_direct_dim / rnn_step_matrix_depth / rnn_step_matrix_pieces;

// A block has R in shared memory, or in registers for multiply-adds or for tensor cores.
enum class RnnStepWay {
    shared,
    direct,
    matrix
};

struct RnnStepParams {
    const void* input = nullptr;
    const void* weight = nullptr;
    const void* bias = nullptr;  // as it is given; null where it is not
    void* output = nullptr;
    const uint8_t* reset = nullptr;  // [rows]; null where there is none
    RnnTensorStrides input_strides, output_strides;
    int32_t output_states = 1;

    // [S] states lie in_state and out_state bytes apart, each with the rows of `states`. In pools a row may be read and
    // written by one call.
    StateRows states;
    int64_t in_state = 0, out_state = 0;

    int32_t rows = 0, heads = 0, dim = 0;
    int32_t width = 0;    // H D
    int32_t padded = 0;   // D in whole vectors of 8
    int32_t units = 0;    // of a block
    int32_t tiles = 0;    // tiles of rnn_step_rows batch rows
    int32_t aligned = 0;  // whether D is a multiple of 8, and rows of h lie in whole words of 16 bytes
    int32_t whole = 0;    // whether the rows of R do
};

// A block has in shared memory its rows of R, [units, G, padded] in weight_dtype, then h, [heads, tiles rows, padded]
// in f32. This is the most heads that the units of a block belong to.
constexpr int64_t rnn_step_heads(int64_t units, int64_t dim, int64_t heads) {
    const int64_t most = (units - 1 + dim - 1) / dim + 1;
    return most < heads ? most : heads;
}

}  // namespace flashscan::cuda
