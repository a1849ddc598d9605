// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels "diagonal" of recurrent networks: plain data, no CUDA types.
#pragma once

#include "cuda/rnn/params.h"

namespace flashscan::cuda {

inline constexpr int rnn_diagonal_units = 32;  // units of a warp, which is a block

// Returns how many steps a chunk has: a power of two from 2 to 16. A step needs `numbers` 32-bit registers, and a chunk
// of more than 2 steps needs at most `most`.
constexpr int rnn_fetched_steps(int numbers, int most) {
    int steps = 2;
    while (steps < 16 && 2 * steps * numbers <= most) steps *= 2;
    return steps;
}

// RESERVE of these kernels is [T, rows, warps of a row, kept, units of a warp]; packed sequences share one row. Rows
// are else entries of the batch or packed sequences, which are the state rows of `p`. p.bias is BIAS as it is given.
struct RnnDiagonalParams {
    RnnParams p;                   // its bias sums are [biases, state rows, segments, units]
    SequenceOffsets offsets;       // its data is null when not packed
    int64_t warps = 0;             // warps that share the units of a row
    const void* weight = nullptr;  // WEIGHT [G, units]
    int32_t wide_weights = 0;      // whether WEIGHT and BIAS have the states' dtype rather than that of INPUT
    int32_t clips = 0;             // whether p.clip is finite
    void* weight_sums = nullptr;   // [G, state rows, segments, units]: the sums over steps; null where not wanted
    // Backward may cut the steps of each row into segments, of which a warp has one. p.bias_sums are then [biases,
    // state rows, segments, units]. Those below are for more than one segment.
    int32_t segments = 1;
    void* maps = nullptr;     // [states + 1, states, state rows, segments, units]: what a segment does to the carry
    void* carries = nullptr;  // [states, state rows, segments, units]: the gradients of the states after a segment
};

}  // namespace flashscan::cuda
