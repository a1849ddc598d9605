// SPDX-License-Identifier: Apache-2.0
// How chained scans (device/scan/chained_rows.cuh, chained_columns.cuh) divide a problem over warps, blocks and chunks:
// plain data, chosen by pure functions of the shape.
#pragma once

#include <cstdint>

#include "core/extent.h"
#include "cuda/device/scan/chained_sets.h"

namespace flashscan::cuda {

inline constexpr int64_t sector_bytes = 32;  // Memory is read and written in sectors of so many bytes.

// The properties of a problem that the choice depends on. Rows are counted per batch entry.
struct ChainedShape {
    int64_t batches = 0, rows = 0, time = 0;
    bool shares_sectors = false;  // columns: whether warps side by side store to the same sectors of memory
    int64_t sequences = 0;        // packed sequences of a row
    int skew = 0;                 // rows: the most steps between the start of a row's first 16-byte vector and the row
    // Where warps of a block share gates, the logarithm of how many; `batches`, or `rows` where they have neighbouring
    // rows, is rounded up to a multiple of how many.
    int log2_sharing = 0;
};

// The tile that a kernel was compiled for.
struct ChainedTile {
    int lane_rows = 0, steps = 0, warps = 0;  // rows and steps of a lane, warps of a block
    int row_lanes = 32;                       // lanes of a warp that have rows; skewed columns have one fewer
    // Columns: with up to so many chunks, groups of chunks are not expected to gain.
    int few_chunks = 2 * column_chunk_group;
};

struct ChainedTuning {
    int log2_warp_rows = 0;   // warps side by side in rows; a block's other warps follow each other in time
    int warps = 0;            // warps of a block
    int64_t row_groups = 0;   // groups of rows: of rows those of all batch entries, of columns those of one
    int64_t chunks = 1;       // chunks that time is cut into
    int64_t chunk_steps = 0;  // steps of a chunk
    int64_t set_groups = 0;   // groups of rows of a set (device/scan/block_order.cuh)
    int64_t blocks = 0;       // blocks of a launch
};

ChainedTuning tune_chained_rows(const ChainedShape& shape, const ChainedTile& tile);
ChainedTuning tune_chained_columns(const ChainedShape& shape, const ChainedTile& tile);

// Whether a chained scan of rows is expected to be faster than one that looks back: rows are so many, or cut by packed
// sequences so often, that no block waits for a carry, and most lanes have steps; or rows are so few and short that
// only the time of the launch counts.
// `most_wasted` is how many of a lane's steps may not exist for each that does.
bool chained_rows_suit(const ChainedShape& shape, const ChainedTuning& rows, int most_wasted = 1);
// Whether hardly any steps of columns' chunks lie behind the last step of time.
bool fills_chunks(const ChainedShape& shape, const ChainedTuning& columns);
// Whether blocks whose warps share gates are expected to be faster than blocks of one row or strip that leave terms of
// each element: they are many. Blocks of columns also do not cut time where the others would not, or are of one chunk.
bool sharing_rows_suit(const ChainedTuning& rows);
bool sharing_columns_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns);
// Whether a chained scan of columns is expected to be faster: chunks are filled, and strips are so many, or cut by
// packed sequences so often, that hardly any block waits for a carry; or they are aligned and so short that they have
// few chunks. `narrowest` tells that no variant with fewer rows for each lane is compiled, whose chunks would be
// longer.
bool chained_columns_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns,
                          bool narrowest);
// Whether columns for which chained_columns_suit returns false suit with their chunks in groups (chained_columns.cuh);
// `record_bytes` are those of the summaries of a lane's rows.
bool chained_column_groups_suit(const ChainedShape& shape, const ChainedTile& tile, const ChainedTuning& columns,
                                int record_bytes);
// Whether rows for which chained_rows_suit returns false are too few rather than too short, so that they suit with
// their chunks in groups (device/scan/chunk_groups.cuh).
bool chained_groups_suit(const ChainedTuning& rows);
// Chunks of a group of rows or of columns; 1: they are not gathered in groups.
constexpr int group_chunks(bool grouped, bool rows) { return !grouped ? 1 : rows ? chunk_group : column_chunk_group; }
// How many steps ahead of its own a tile of few rows brings another tile of its row into L2: about as many blocks lie
// between them as the device has multiprocessors. 0: it brings none.
int64_t steps_ahead(const ChainedTuning& rows, int multiprocessors);
// The bytes of memory through which chunks exchange values: for each of `lanes` lanes that publish a carry into each
// chunk or, where `group_chunks` is not 1, into each group of so many chunks, and behind these a summary of each chunk.
// 0 where a row is one chunk.
struct ChainedBytes {
    Extent carries, all;
};
ChainedBytes exchanged_bytes(const ChainedTuning& tuning, int group_chunks, Extent lanes, int carry_bytes,
                             int record_bytes);

// Warps of a block that follow each other in time: as many as there are steps for, up to 2^log2_warps, as long as no
// more than a seventh of them have none.
int log2_warps_in_time(int64_t time, int64_t warp_steps, int log2_warps);

// The order of a launch's blocks.
ChainedSets sets_of(const ChainedTuning& tuning, int64_t rows);

}  // namespace flashscan::cuda
