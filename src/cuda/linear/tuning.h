// SPDX-License-Identifier: Apache-2.0
// How a linear kernel cuts the problem: plain data, chosen by a pure function of the shape.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

enum class LinearAlgorithm {
    stream,
    chunked,
    relay,
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
    bool shares_sectors = false;  // rows side by side store to the same 32 bytes of memory
    int64_t sequences = 0;        // packed in a row
    int skew = 0;                 // steps that a row may have before its first, to begin at a vector
};

// What makes a step cost more than its bytes.
struct LinearCost {
    bool backward = false;
    bool gate_form = false, reset = false;  // log or logit gates; RESET
};

// The tile of an algorithm: rows and steps of a lane, warps of a block.
struct LinearTile {
    int lane_rows = 0, steps = 0, warps = 0;
    int row_lanes = 32;  // of a warp of columns that have rows
};

// That of the relay; bytes of a warp's stage.
struct RelayTile {
    int lane_rows = 0, steps = 0, stage_bytes = 0;
};

// That of waves: rows and steps of a lane, rows of a chunk at the most, warps of a block that walk, and stages of a ring.
struct WaveTile {
    int lane_rows = 1, steps = 0;
    int rows = 1;
    int warps = 0, ring = 0;
};

struct LinearTuning {
    LinearAlgorithm algorithm = LinearAlgorithm::stream;
    int log2_lane_rows = 5;     // packs of rows side by side in a warp; its other lanes are segments of time
    int log2_warp_rows = 0;     // warps side by side in rows; the others of a block follow each other in time
    int64_t row_groups = 0;     // of a batch
    int64_t chunks = 1;         // of time
    int64_t chunk_steps = 0;    // of a block
    int log2_group_chunks = 0;  // chunks of a look-back group
    int log2_link_groups = 0;   // groups of a link of the carry chain
    // Relay and waves.
    int warps = 0;  // of a block
    int ring = 0;   // stages that a warp has in shared memory
    int least_shared_bytes = 0;
    int64_t blocks = 0;      // where they walk more than their share of one wave
    int64_t teams = 1;       // of the blocks of waves
    int64_t set_groups = 0;  // of the sets in which `rows` and `columns` take them
};

LinearTuning tune_stream(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_chunked(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_relay(const LinearShape& shape, const RelayTile& tile, const LinearCost& cost, int multiprocessors);
LinearTuning tune_waves(const LinearShape& shape, const WaveTile& tile, int multiprocessors);
LinearTuning tune_rows(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_columns(const LinearShape& shape, const LinearTile& tile);
// Whether rows are so many, or cut so often, that none waits for a carry, and most lanes have steps; or so few and short
// that nothing but the launch counts.
bool rows_suit(const LinearShape& shape, const LinearTuning& rows);
// Whether columns are so many, or cut so often, that hardly any waits for a carry; or aligned and so short that chunks are
// few. Narrowest: no lanes with fewer rows are compiled, whose chunks would be longer.
bool columns_suit(const LinearShape& shape, const LinearTile& tile, const LinearTuning& columns, bool narrowest);
// Whether waves are the fastest algorithm where relays do not suit.
bool waves_suit(const LinearShape& shape, const LinearTuning& waves, bool backward);
// Whether the relay is the fastest algorithm.
bool relay_suits(const LinearShape& shape, const LinearTuning& relay, int multiprocessors);

}  // namespace flashscan::cuda
