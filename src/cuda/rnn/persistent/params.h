// SPDX-License-Identifier: Apache-2.0
// Arguments of the persistent kernels of recurrent networks: plain data, no CUDA types.
//
// A job is a head and some rows, 8 to a tile. A team of blocks, each with some units of the head, walks a job from its
// first step to its last, then its next job. RESERVE and the factors are those of RnnParams.
#pragma once

#include "cuda/rnn/params.h"
#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int rnn_persistent_threads = 512;

// Extents that a plan settles. Shared memory holds the stored rows of R, then vectors (forward in clusters two sets,
// which turns take alternately), then sums.
struct RnnPersistentShape {
    int32_t blocks = 0;     // blocks of a team
    int32_t clustered = 0;  // whether teams are clusters
    int32_t teams = 0;
    int32_t groups = 0;     // groups of rows for each head
    int32_t tiles = 0;      // tiles of 8 rows in a group
    int32_t units = 0;      // units of a block
    int32_t stored = 0;     // how many of a block's rows of R, the first ones, are in shared memory
    int32_t sum_parts = 0;  // backward, threads that share the sum of one element
    int32_t vectors_at = 0, sums_at = 0, shared_bytes = 0;  // offsets, and the size of shared memory
};

struct RnnPersistentParams {
    RnnParams p;  // forward its factors are [2, rows, H, padded], of even and of odd steps
    RnnPersistentShape s;
    int32_t heads = 0, gates = 0;
    const void* weights = nullptr;  // [H, G, padded, padded]
    uint32_t* arrivals = nullptr;   // rnn_persistent_line words for each team, zeros
    // Backward.
    int64_t first = 0, end = 0;  // steps of this launch; gradients and factors begin with step `first`
    void* partials = nullptr;    // [teams, 2, blocks, rows of a group, padded] in the states' dtype
};

inline constexpr int rnn_persistent_line = 32;  // words of a line of the cache, so that teams do not share one

// Bytes from a row of R or of factors to the next in shared memory: rows start 64 bytes apart modulo 128, so that the
// 16 bytes that four lanes read from each of two rows use all banks.
FLASHSCAN_HD constexpr int rnn_persistent_stride(int64_t row_bytes) {
    return static_cast<int>((row_bytes + 127) / 128 * 128 + 64);
}

// How many warps share the k of one tile of 16 x 8 of the product R factors: several where there are few tiles.
FLASHSCAN_HD constexpr int rnn_persistent_parts(int tiles) {
    constexpr int warps = rnn_persistent_threads / 32;
    return tiles * 2 > warps ? 1 : warps / tiles < 8 ? warps / tiles : 8;
}

}  // namespace flashscan::cuda
