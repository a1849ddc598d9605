// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel "decode" of recurrent networks: plain data, no CUDA types.
#pragma once

#include "cuda/device/tile/step_rows.h"
#include "cuda/rnn/params.h"

namespace flashscan::cuda {

// A warp has a unit and so many rows.
inline constexpr int rnn_step_rows = 4;
inline constexpr int rnn_step_warps = 32;      // the most of a block
inline constexpr int rnn_step_most_rows = 16;  // of a call
// The kernels that hold R in registers (few_rows.cuh, tensor_cores.cuh) take heads of up to rnn_step_direct_dim units.
// Blocks of few_rows.cuh have up to so many warps, those of tensor_cores.cuh up to so many rows of R.
inline constexpr int rnn_step_direct_dim = 1024, rnn_step_direct_warps = 8, rnn_step_matrix_rows = 32;
// A warp of tensor_cores.cuh has up to so many pieces of rnn_step_matrix_depth k, and a block up to so many warps,
// which have all k of the largest heads.
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
    int32_t tiles = 0;    // of rnn_step_rows rows
    int32_t aligned = 0;  // whether D is a multiple of 8, and rows of h lie in whole words of 16 bytes
    int32_t whole = 0;    // whether the rows of R do
};

// Shared memory of a block: its rows of R, [units, G, padded] in weight_dtype, then h, [heads, tiles rows, padded] in
// f32. A block's units belong to so many heads at the most.
constexpr int64_t rnn_step_heads(int64_t units, int64_t dim, int64_t heads) {
    const int64_t most = (units - 1 + dim - 1) / dim + 1;
    return most < heads ? most : heads;
}

}  // namespace flashscan::cuda
