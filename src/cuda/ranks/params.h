// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of kernels.cuh: plain data, no CUDA types. A row is a state: a channel of a batch entry or,
// where sequences are packed, of a sequence.
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

// The summary that a rank sends of its rows, one array for each part. The map of a row is h -> product h + sum, or
// h -> sum where it is cut.
struct RankMessage {
    void* product = nullptr;
    void* sum = nullptr;
    uint8_t* marks = nullptr;  // bits of RankMark
    void* edge = nullptr;      // the state after the steps of the row as backward reads it; null forward
};

enum RankMark : uint8_t {
    rank_cut = 1,
    rank_edge = 2  // the edge holds a state
};

// summarise_rows and summarise_time: the maps of the chunks of a rank's rows, in the order of the pass.
struct RankSummaryParams {
    View gate, source;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t rows = 0, channels = 0, time = 0;
    int64_t chunks = 0;       // of a row
    int64_t chunk_steps = 0;  // of a chunk, where sequences are not packed
    int32_t gate_form = 0, down = 0;
    int32_t gate_vectors = 0, source_vectors = 0;  // whether vectors of 16 bytes along time are aligned
    RankMessage chunk;                             // of all chunks: [chunks, rows]
};

// close_rank: the map of all chunks, and the edge.
struct RankCloseParams {
    RankMessage chunk, to;  // product and sum of `to` are null where the map is not wanted
    int64_t rows = 0, channels = 0, time = 0, chunks = 0;
    int32_t first = 0;       // whether this is the first rank of the pass, whose map is the state after its steps
    int32_t edge_first = 0;  // whether this is the first rank of the recurrence, whose edge without steps is STATE_IN
    const void* start = nullptr;  // the state that enters the first rank of the pass; null: zeros
    View states;                  // OUTPUT; null: the edge is NaN
    const void* state_in = nullptr;
    SequenceOffsets offsets;
    int32_t reverse = 0;  // the direction of the recurrence
    int32_t unused = 0;
};

// enter_rank: finds the carry that enters this rank, and the state before it, from the gathered messages of all ranks.
struct RankEnterParams {
    RankMessage first;         // that of rank 0
    int64_t message_step = 0;  // bytes from one rank's to the next
    int64_t rows = 0, channels = 0;
    // The `pass_count` ranks before this one in the order of the pass, from `pass_first` on in steps of 1 or -1.
    int32_t pass_first = 0, pass_count = 0, pass_step = 1;
    // Ranks in which the state before this one is looked for, the nearest first: `before_count` of them, from `before`
    // on in steps of `before_step`, which goes against the recurrence. No state is wanted if `before` is -1.
    int32_t before = -1, before_step = -1, before_count = 0;
    int64_t group_channels = 0;  // `before_to` lists rows group by group of so many channels
    void* carry = nullptr;       // null where none is wanted
    void* before_to = nullptr;
};

}  // namespace flashscan::cuda
