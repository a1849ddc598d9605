// SPDX-License-Identifier: Apache-2.0
// What the kernels that scan elements are launched with: plain data. Compiles as C++, CUDA C++ and with NVRTC.
//
// A row is a chain of elements, that is one (batch, channel) pair. With time innermost the host folds the batch axis
// into the rows. Places and strides are counted in elements.
#pragma once

#include "cuda/device/tile/sequences.h"
#include "math/number.h"

namespace flashscan::cuda {

enum ElementMode {
    element_inclusive = 0,
    element_exclusive = 1,
    element_reduction = 2
};

// How a launch lies over the chains.
struct ElementGrid {
    int64_t batches = 0, rows = 0, time = 0;  // rows of a batch
    int64_t batch_stride = 0, row_stride = 0, time_stride = 0;
    int64_t row_groups = 0;         // groups of rows of a batch
    int64_t chunks = 0;             // of time
    int32_t time_inner = 0;         // neighbouring lanes are neighbours in time, not neighbouring rows
    int32_t down = 0;               // against the order of memory
    int32_t log2_lane_rows = 0;     // rows side by side in a warp; its other lanes are segments of time
    int32_t log2_warp_rows = 0;     // warps side by side; the others of a block follow each other in time
    int32_t log2_group_chunks = 0;  // chunks of a look-back group; 0 if log2_warp_rows is not
    int32_t log2_link_groups = 0;   // groups of a link of the carry chain
    int32_t aligned = 0;            // elements may be read and written in their widest parts
    int32_t vectors = 0;            // and runs of time in whole vectors of 16 bytes
    SequenceOffsets offsets;        // packed: the rows of the states are sequences
    // Words for what chunks hand each other, all bits one before the launch (element_chain.cuh).
    void *records = nullptr, *totals = nullptr, *carries = nullptr;
};

struct ElementScanParams {
    ElementGrid grid;
    const void* input = nullptr;
    void* output = nullptr;          // of a scan
    void* reduced = nullptr;         // OUTPUT of a reduction, an element a state
    void* prefixes = nullptr;        // y[t-1] as states hold it, an element a step, in MODE_EXCLUSIVE; may be null
    const void* state_in = nullptr;  // [batches or sequences, rows]; may be null
    void* state_out = nullptr;       // the same
    void* marks = nullptr;  // the carries into chunks, [chunks, batches * row_groups, rows of a group]; or null
    int32_t mode = 0;       // ElementMode
    int32_t kind = 0;       // of the operator, where one kernel serves several
    const void* operator_state = nullptr;  // of a custom operator
};

// Sequences and rows of no steps: what they leave is STATE_IN, or the identity.
struct EmptyElementParams {
    SequenceOffsets offsets;  // not packed: all rows have no steps
    int64_t chains = 0, rows = 0;
    const void* state_in = nullptr;
    void *state_out = nullptr, *reduced = nullptr;
    int32_t kind = 0, unused = 0;
    const void* operator_state = nullptr;
};

// Steps that a lane holds of elements of `bytes` bytes in registers.
FLASHSCAN_HD constexpr int element_steps(int bytes) {
    return bytes <= 4 ? 16 : bytes <= 16 ? 8 : bytes <= 64 ? 4 : bytes <= 128 ? 2 : 1;
}
// Warps of a block for elements of `bytes` bytes in registers: few where these are full.
FLASHSCAN_HD constexpr int element_warps(int bytes) { return bytes <= 8 ? 8 : 4; }

// Runs that a block keeps in shared memory.
FLASHSCAN_HD constexpr int element_chain_runs(int warps, int log2_lane_rows, int log2_warp_rows) {
    const int lanes = warps << log2_lane_rows;  // totals of warps; folds are as many where there are groups
    return 2 * lanes + (1 << (log2_lane_rows + log2_warp_rows));
}

// Whether a lane keeps its elements in shared memory, not in registers. Loops over them are then not unrolled: code that
// runs once takes longer to fetch than to run.
FLASHSCAN_HD constexpr bool element_is_kept(int bytes) { return bytes >= 16; }

// Bytes between the runs of neighbouring lanes in a warp's buffer, so that no two of eight lanes meet in a bank; 0 where
// there is no buffer, as runs are no whole vectors of 16 bytes.
FLASHSCAN_HD constexpr int element_pitch(int bytes, int steps) {
    const int run = bytes * steps, padded = (run + 15) / 16 * 16;
    if (run != padded && !element_is_kept(bytes)) return 0;
    return padded % 32 != 0 ? padded : padded + 16;
}
// Of a block, where time is innermost or elements are kept.
FLASHSCAN_HD constexpr int element_buffer_bytes(int bytes, int steps, int warps) {
    return 32 * warps * element_pitch(bytes, steps);
}

}  // namespace flashscan::cuda
