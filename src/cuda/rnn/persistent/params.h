// SPDX-License-Identifier: Apache-2.0
// What the persistent kernels of recurrent networks are launched with: plain data, no CUDA types.
//
// A job is a head and some rows, 8 to a tile. A team of blocks, each with some units of the head, walks a job from its
// first step to its last, then its next job. RESERVE and the factors are those of RnnParams.
#pragma once

#include "cuda/rnn/params.h"
#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int rnn_persistent_threads = 512;

// Extents that a plan settles. Shared memory: the rows of R that are stored, vectors, sums.
struct RnnPersistentShape {
    int32_t blocks = 0;     // of a team
    int32_t clustered = 0;  // teams are clusters
    int32_t teams = 0;
    int32_t groups = 0;  // of rows, per head
    int32_t tiles = 0;   // of a group
    int32_t units = 0;   // of a block
    int32_t stored = 0;  // rows of R of a block that are in shared memory, the first ones
    int32_t vectors_at = 0, sums_at = 0, shared_bytes = 0;
};

struct RnnPersistentParams {
    RnnParams p;  // factors: [2, rows, H, padded]
    RnnPersistentShape s;
    int32_t heads = 0, gates = 0;
    const void* weights = nullptr;  // [H, G, padded, padded]
    uint32_t* arrivals = nullptr;   // rnn_persistent_line words for each team, zeros
    // Backward.
    int64_t first = 0, end = 0;  // steps of this launch; gradients and factors have step `first` in front
    void* partials = nullptr;    // [teams, 2, blocks, rows of a group, padded] in the states' dtype
};

inline constexpr int rnn_persistent_line = 32;  // words

// Bytes of a row of R or of factors in shared memory: rows start 64 bytes apart modulo 128, so that 16 bytes of four
// lanes in two rows fill the banks.
FLASHSCAN_HD constexpr int rnn_persistent_stride(int64_t row_bytes) {
    return static_cast<int>((row_bytes + 127) / 128 * 128 + 64);
}

// Of R factors: warps share out tiles of 16 x 8, and several share the k of one where there are few.
FLASHSCAN_HD constexpr int rnn_persistent_parts(int tiles) {
    constexpr int warps = rnn_persistent_threads / 32;
    return tiles * 2 > warps ? 1 : warps / tiles < 8 ? warps / tiles : 8;
}

}  // namespace flashscan::cuda
