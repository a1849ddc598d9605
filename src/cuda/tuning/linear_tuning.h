// SPDX-License-Identifier: Apache-2.0
// Which linear kernel, and how it cuts the problem: plain data, chosen by a pure function of the shape.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

enum class LinearAlgorithm {
    stream,
    chunked
};

// What the choice depends on. Rows are counted per batch after the host folded batches where it can.
struct LinearShape {
    int64_t batches = 0, rows = 0, time = 0;
    bool sums_rows_every_step = false;  // GRAD|GATE of a gate broadcast over channels but not over time
    bool batch_invariant = false;
    bool packed = false;
};

// The tile of an algorithm: channels and steps of a lane, warps of a block, most packs of channels side by side.
struct LinearTile {
    int channels_per_lane = 0, steps = 0, warps = 0, log2_widest = 5;
};

struct LinearTuning {
    LinearAlgorithm algorithm = LinearAlgorithm::stream;
    int log2_lane_rows = 5;   // chunked: packs of rows side by side in a warp
    int64_t row_groups = 0;   // of a batch
    int64_t chunks = 1;       // of time
    int64_t chunk_steps = 0;  // of a block
    int group_chunks = 1;     // chunks of a look-back group
};

// The stream kernel where time is too short to cut, may not be cut, or rows must be summed at every step.
LinearAlgorithm choose_linear_algorithm(const LinearShape& shape);
LinearTuning tune_stream(const LinearShape& shape, const LinearTile& tile);
LinearTuning tune_chunked(const LinearShape& shape, const LinearTile& tile, bool time_inner);

}  // namespace flashscan::cuda
