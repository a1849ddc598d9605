// SPDX-License-Identifier: Apache-2.0
// Which packed sequence a step or a chunk of steps belongs to, by a search in SEQ_OFFSETS.
#pragma once

#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

__device__ __forceinline__ int64_t load_offset(const SequenceOffsets& offsets, int64_t n) { return offsets.at(n); }

// The end of the steps that exist: `end`, or the last offset where sequences are packed and it comes before.
__device__ __forceinline__ int64_t end_of_steps(const SequenceOffsets& offsets, int64_t end) {
    return offsets.data == nullptr ? end : min(end, max(offsets.given(offsets.sequences), int64_t{0}));
}

// The steps [begin, end) of a kernel.
struct StepRange {
    int64_t begin, end;
};
// The steps of [begin, end) that exist. Where tensors are reversed in time, steps past the last sequence come first.
__device__ __forceinline__ StepRange steps_that_exist(const SequenceOffsets& offsets, int64_t begin, int64_t end) {
    if (offsets.mirrored == 0) return {begin, end_of_steps(offsets, end)};
    return {max(begin, offsets.time - end_of_steps(offsets, offsets.time)), end};
}

// The sequence that holds step t: the last n with offsets[n] <= t < offsets[n + 1]. Where offsets decrease, it is any
// sequence.
inline __device__ __noinline__ int64_t find_sequence(const SequenceOffsets& offsets, int64_t t) {
    int64_t low = 0, high = offsets.sequences;  // offsets[low] <= t < offsets[high]
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (offsets.given(middle) <= t)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The same, by all lanes of a warp, which test 32 offsets at a time, so that fewer loads have to wait for each other.
inline __device__ int64_t find_sequence_together(const SequenceOffsets& offsets, int64_t t, int lane) {
    int64_t low = 0, high = offsets.sequences;
    while (high - low > 1) {
        const int64_t step = (high - low + 31) / 32, probe = low + (lane + 1) * step;
        const uint32_t before = __ballot_sync(0xffffffffU, probe < high && offsets.given(probe) <= t);
        low += __popc(before) * step;
        high = min(high, low + step);
    }
    return low;
}

// The steps [begin, end) that are cut into chunks, and a block's chunk among them.
struct ChunkPlace {
    int64_t begin, end;
    uint32_t chunk, chunks;
    uint32_t first;  // the place of chunk 0 among the chunks of the launch
};

// The chunk at a place of the launch where each packed sequence has its own chunks of 2^log2_steps steps. Sequence n
// has the places from floor(offsets[n] / 2^log2_steps) + n on, which are as many as it needs or one more. All lanes of
// a warp must call this; where the place has no chunk, it returns one without steps.
//
// Blocks wait for the places of earlier chunks, so all of these must come to the same sequence, whatever the offsets
// are. They do if no place that the search took for one at or before its own comes after the first of the sequence that
// it found: then an earlier place of that sequence compares alike. Else the offsets decrease, and there is no chunk.
inline __device__ ChunkPlace place_of_chunk(const SequenceOffsets& offsets, int log2_steps, uint32_t place, int lane) {
    const auto first_of = [&](int64_t n) { return (offsets.at(n) >> log2_steps) + n; };
    int64_t low = 0, high = offsets.sequences, most = first_of(0);
    while (high - low > 1) {
        const int64_t step = (high - low + 31) / 32, probe = low + (lane + 1) * step;
        const int64_t first = probe < high ? first_of(probe) : int64_t{place} + 1;
        const uint32_t before = __ballot_sync(0xffffffffU, first <= place);
        if (first <= place) most = max(most, first);
        low += __popc(before) * step;
        high = min(high, low + step);
    }
    const int64_t first = first_of(low), begin = offsets.at(low);
    const int64_t steps = offsets.sequences > 0 ? offsets.at(low + 1) - begin : 0;
    const int64_t chunk = place - first, chunks = steps + (int64_t{1} << log2_steps) - 1 >> log2_steps;
    const bool found = __all_sync(0xffffffffU, most <= first) && chunk >= 0 && chunk < chunks;
    if (!found) return {0, 0, 0, 1, place};
    return {begin, begin + steps, static_cast<uint32_t>(chunk), static_cast<uint32_t>(chunks),
            static_cast<uint32_t>(first)};
}

}  // namespace flashscan::cuda
