// SPDX-License-Identifier: Apache-2.0
// How the scan of elements cuts the problem: plain data, chosen by a pure function of the shape.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// What the geometry depends on besides the problem.
struct ElementFacts {
    int bytes = 0;          // of an element in memory
    int words = 0;          // of 4 bytes, of an element in registers
    int run_bytes = 0;      // of a Run<Element>
    int steps = 0;          // of a lane
    int warps = 0;          // of a block
    int buffer_bytes = 0;   // of shared memory, where time is innermost or elements are kept there
    bool keeps = false;     // elements in shared memory
    int channels = 1;       // neighbouring channels that are one element
    bool backward = false;  // walks the other way
};

// Rows are counted per batch, after the host folded batches where it can.
struct ElementShape {
    int64_t batches = 0, rows = 0, time = 0;
    bool time_inner = false;
    bool batch_invariant = false;
    int steps = 0, warps = 0;  // of a lane, of a block
};

struct ElementTuning {
    int log2_lane_rows = 5;  // rows side by side in a warp; its other lanes are segments of time
    int log2_warp_rows = 0;  // warps side by side in rows; the others of a block follow each other in time
    int64_t row_groups = 0;  // of a batch
    int64_t chunks = 1;      // of time
    int64_t chunk_steps = 0;
    int log2_group_chunks = 0;  // chunks of a look-back group
    int log2_link_groups = 0;   // groups of a link of the carry chain
};

ElementTuning tune_elements(const ElementShape& shape);

}  // namespace flashscan::cuda
