// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel "diagonal_newton" of recurrent networks: plain data, no CUDA types.
#pragma once

#include "cuda/rnn/diagonal/params.h"

namespace flashscan::cuda {

// The most warps of a block, blocks of a cluster and steps of a segment; and the fewest steps that are worth a segment,
// which has a warp of its own.
inline constexpr int rnn_newton_warps = 16, rnn_newton_blocks = 16, rnn_newton_steps = 64, rnn_newton_least = 16;
// Flags of a block, one for each block of its cluster, in whole words of 16 bytes. A warp reads them at once.
inline constexpr int rnn_newton_flags = 32;
static_assert(rnn_newton_blocks <= rnn_newton_flags && rnn_newton_flags <= 32 && rnn_newton_flags % 4 == 0);

// Steps that a walk takes from INPUT at once, of cells of so many gates. Segments have room for a multiple of them.
constexpr int rnn_newton_fetched(int64_t gates) { return rnn_fetched_steps(static_cast<int>(gates), 16); }

// Threads of a block that scans the segments of backward.
inline constexpr int rnn_newton_scan_block = 64;

// How many numbers a segment, or a block, shares with the others for each lane: the states before and after it, the
// Jacobian of the latter by the former, and the recent magnitude of the states.
constexpr int rnn_newton_numbers(int states) { return states * (3 + states); }

// Numbers of the states' type in a block's shared memory: those that its segments share, those that it receives from
// the blocks of its cluster, and the carry. The flags of the cluster and INPUT of its segments follow.
constexpr int rnn_newton_words(int states, int warps, int blocks) {
    return 32 * (rnn_newton_numbers(states) * (warps + (blocks > 1 ? blocks : 0)) + states);
}

struct RnnNewtonParams {
    RnnDiagonalParams d;
    int32_t blocks = 1;             // of a cluster, which has a warp's units of a row
    int32_t steps = 0;              // of a segment, at most
    int32_t* iterations = nullptr;  // [rows], 0 before; null where the call does not ask for them
    float* residual = nullptr;      // the same
};

}  // namespace flashscan::cuda
