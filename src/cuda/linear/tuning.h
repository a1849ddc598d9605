// SPDX-License-Identifier: Apache-2.0
// How a linear kernel divides the problem over threads, warps, blocks and chunks: plain data, chosen by pure functions
// of the shape.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

enum class LinearAlgorithm {
    chunked,
    waves,
    rows,
    columns
};

// What the choice depends on. Rows are counted per batch after the host folded batches where it can.
struct LinearShape {
    int64_t batches = 0, rows = 0, time = 0;
    bool time_inner = false;
    bool sums_rows_every_step = false;  // GRAD|GATE of a gate broadcast over channels but not over time
    bool batch_invariant = false;
    bool shares_sectors = false;  // whether warps side by side in rows store to the same 32-byte sectors of memory
    int64_t sequences = 0;        // packed sequences of a row
    // Whether each packed sequence is cut into chunks from its own start.
    bool by_sequence() const { return batch_invariant && sequences > 0; }
    int skew = 0;  // the most steps between the start of a row's first 16-byte vector and the row
};

// The tile of an algorithm: rows and steps of a lane, warps of a block.
struct LinearTile {
    int lane_rows = 0, steps = 0, warps = 0;
    int row_lanes = 32;  // lanes of a warp that have rows; skewed columns have one fewer
};

// The tile of the kernel "waves": rows and steps of a lane, the most rows of a chunk, warps of a block that walk, and
// stages of a ring buffer.
struct WaveTile {
    int lane_rows = 1, steps = 0;
    int rows = 1;
    int warps = 0, ring = 0;
};

// The fields of all algorithms; each uses some.
struct LinearTuning {
    LinearAlgorithm algorithm = LinearAlgorithm::chunked;
    int log2_lane_rows = 5;     // lanes side by side in rows; a warp's other lanes are segments of time
    int log2_warp_rows = 0;     // warps side by side in rows; a block's other warps follow each other in time
    int64_t row_groups = 0;     // groups of rows of a batch entry; of "rows": of all
    int64_t chunks = 1;         // chunks that time is cut into
    int64_t chunk_steps = 0;    // steps of a chunk
    int log2_group_chunks = 0;  // chunked: chunks of a look-back group
    int log2_link_groups = 0;   // chunked: groups of a link (look_back.cuh)
    int log2_fold_rows = 0;     // chunked: threads share earlier summaries as if a group had at least so many rows
    int warps = 0;              // warps of a block, of waves those that walk; chunked has a constant
    int ring = 0;               // waves: stages of a ring buffer in shared memory
    int64_t blocks = 0;         // rows, columns and waves: blocks of a launch; of others they follow from the rest
    int64_t teams = 1;          // waves: teams that the blocks are divided into
    int64_t set_groups = 0;     // rows and columns: groups of rows of a set (block_order.cuh)
};

LinearTuning tune_chunked(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_waves(const LinearShape& shape, const WaveTile& tile, int multiprocessors);
LinearTuning tune_rows(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_columns(const LinearShape& shape, const LinearTile& tile);
// Whether "rows" is expected to be fastest: rows are so many, or cut by packed sequences so often, that no block waits
// for a carry, and most lanes have steps; or rows are so few and short that only the time of the launch counts.
bool rows_suit(const LinearShape& shape, const LinearTuning& rows);
// Whether "columns" is expected to be fastest: strips are so many, or cut by packed sequences so often, that hardly any
// block waits for a carry; or they are aligned and so short that they have few chunks. `narrowest` tells that no
// variant with fewer rows for each lane is compiled, whose chunks would be longer.
bool columns_suit(const LinearShape& shape, const LinearTile& tile, const LinearTuning& columns, bool narrowest);
// Whether "waves" is expected to be fastest where "rows" and "columns" are not.
bool waves_suit(const LinearShape& shape, const LinearTuning& waves, bool backward);

}  // namespace flashscan::cuda
