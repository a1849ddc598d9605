// SPDX-License-Identifier: Apache-2.0
// How the scan of elements divides the problem over threads, blocks and chunks: plain data, chosen by a pure function
// of the shape.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// A compiled kernel fixes these facts. Together with the problem it they give an ElementShape, and that an
// ElementTuning.
struct ElementFacts {
    int bytes = 0;            // bytes of an element in memory
    int words = 0;            // 32-bit words of an element in registers
    int carry_words = 0;      // 32-bit words by which a run from a row's start is published; 0: `words`
    int run_bytes = 0;        // bytes of a Run<Element>
    int steps = 0;            // steps of a lane
    int warps = 0;            // warps of a block
    int buffer_bytes = 0;     // shared memory for elements, used where time is innermost or elements are kept there
    bool keeps = false;       // whether elements are kept in shared memory
    int channels = 1;         // how many neighbouring channels are one element
    bool backward = false;    // whether the walk goes from the last step to the first
    int log2_least_rows = 5;  // see ElementShape
};

// Rows are counted per batch, after the host folded batches where it can.
struct ElementShape {
    int64_t batches = 0, rows = 0, time = 0;
    bool time_inner = false;
    bool batch_invariant = false;
    int64_t sequences = 0;     // packed sequences of a row
    int steps = 0, warps = 0;  // steps of a lane, warps of a block
    // Channels innermost: a warp takes at least 2^log2_least_rows rows, or all that there are, so that its accesses are
    // wide. It takes more only where blocks are many all the same, since with fewer rows a warp has more steps and
    // chunks are longer.
    int log2_least_rows = 5;

    // Whether each packed sequence is cut into chunks from its own start.
    bool by_sequence() const { return batch_invariant && sequences > 0; }
};

struct ElementTuning {
    int log2_lane_rows = 5;  // rows side by side in a warp; its other lanes are segments of time
    int log2_warp_rows = 0;  // warps side by side in rows; a block's other warps follow each other in time
    int64_t row_groups = 0;  // blocks side by side for the rows of a batch entry
    int64_t chunks = 1;      // chunks that time is cut into
    int64_t chunk_steps = 0;
    // Chunks of a group and groups of a link (device/scan/element_chain.cuh); both are 0 where carries pass from chunk
    // to chunk.
    int log2_group_chunks = 0;
    int log2_link_groups = 0;
};

ElementTuning tune_elements(const ElementShape& shape);

}  // namespace flashscan::cuda
