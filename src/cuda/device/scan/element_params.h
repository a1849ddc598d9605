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

// How the threads of a launch are laid out over rows and time.
struct ElementGrid {
    int64_t batches = 0, rows = 0, time = 0;  // `rows` counts those of one batch entry
    int64_t batch_stride = 0, row_stride = 0, time_stride = 0;
    int64_t row_groups = 0;         // groups of rows of a batch entry; a block takes one
    int64_t chunks = 0;             // chunks that time is cut into, or the most that all sequences may have
    int32_t time_inner = 0;         // whether neighbouring lanes are neighbours in time, not neighbouring rows
    int32_t down = 0;               // whether the walk goes against the order of memory
    int32_t log2_lane_rows = 0;     // rows side by side in a warp; its other lanes are segments of time
    int32_t log2_warp_rows = 0;     // warps side by side in rows; a block's other warps follow each other in time
    int32_t log2_group_chunks = 0;  // chunks of a look-back group; it is 0 where log2_warp_rows is not
    int32_t log2_link_groups = 0;   // groups of a link (element_chain.cuh)
    int32_t aligned = 0;            // whether elements may be read and written in their widest parts
    int32_t vectors = 0;            // whether runs of time may also be read and written in vectors of 16 bytes
    int32_t by_sequence = 0;        // whether each packed sequence is cut into chunks from its own start
    int32_t unused = 0;
    SequenceOffsets offsets;  // where it is given, the rows of the states are sequences
    // Memory through which chunks exchange runs; all bits are one before the launch (element_chain.cuh).
    void *records = nullptr, *totals = nullptr, *carries = nullptr;
};

struct ElementScanParams {
    ElementGrid grid;
    const void* input = nullptr;
    void* output = nullptr;          // OUTPUT of a scan; null for a reduction
    void* reduced = nullptr;         // OUTPUT of a reduction: one element for each row or sequence
    void* index = nullptr;           // one i64 for each element of OUTPUT, of operators that have one
    void* prefixes = nullptr;        // in MODE_EXCLUSIVE: y[t-1] of every step, in the format of states; may be null
    const void* state_in = nullptr;  // [batches or sequences, rows]; may be null
    void* state_out = nullptr;       // [batches or sequences, rows]; may be null
    // If given, the kernel only writes the carries into chunks there, [chunks, batches * row_groups, rows of a group].
    void* marks = nullptr;
    int32_t mode = 0;                      // an ElementMode
    int32_t kind = 0;                      // which operator, where one kernel serves several
    const void* operator_state = nullptr;  // the state of a custom operator
};

// Rows and sequences without steps: their final state is STATE_IN, or the identity.
struct EmptyElementParams {
    SequenceOffsets offsets;  // where it is not given, no row has steps
    int64_t chains = 0, rows = 0;
    const void* state_in = nullptr;
    void *state_out = nullptr, *reduced = nullptr, *index = nullptr;
    int32_t kind = 0, unused = 0;
    const void* operator_state = nullptr;
};

// The largest power of 2, up to 16, that divides the bytes of an element.
FLASHSCAN_HD constexpr int element_part(int bytes) {
    int part = 16;
    while (bytes % part != 0) part /= 2;
    return part;
}

// How many steps a lane holds, by the bytes of an element in registers.
FLASHSCAN_HD constexpr int element_steps(int bytes) {
    return bytes <= 4 ? 16 : bytes <= 16 ? 8 : bytes <= 64 ? 4 : bytes <= 128 ? 2 : 1;
}
// Warps of a block, by the bytes of an element in registers: fewer where elements need many registers.
FLASHSCAN_HD constexpr int element_warps(int bytes) { return bytes <= 8 ? 8 : 4; }

// How many runs a block keeps in shared memory: the totals of its warps, as many folds where chunks are gathered in
// groups, and a carry for each row.
FLASHSCAN_HD constexpr int element_chain_runs(int warps, int log2_lane_rows, int log2_warp_rows, bool grouped) {
    const int lanes = warps << log2_lane_rows;
    return (grouped ? 2 : 1) * lanes + (1 << (log2_lane_rows + log2_warp_rows));
}

// Whether a lane keeps its elements in shared memory, not in registers. Loops over them are then not unrolled, because
// fetching code that runs only once takes longer than running it.
FLASHSCAN_HD constexpr bool element_is_kept(int bytes) { return bytes >= 16; }

// Bytes from the steps of one lane to those of the next in a warp's buffer. They are an odd multiple of 16, so that
// eight lanes access vectors without bank conflicts. It is 0 where there is no buffer, because a lane's steps are not
// whole vectors of 16 bytes.
FLASHSCAN_HD constexpr int element_pitch(int bytes, int steps) {
    const int run = bytes * steps, padded = (run + 15) / 16 * 16;
    if (run != padded && !element_is_kept(bytes)) return 0;
    return padded % 32 != 0 ? padded : padded + 16;
}
// Bytes of the buffer of a block; there is one where time is innermost or elements are kept in shared memory.
FLASHSCAN_HD constexpr int element_buffer_bytes(int bytes, int steps, int warps) {
    return 32 * warps * element_pitch(bytes, steps);
}

}  // namespace flashscan::cuda
