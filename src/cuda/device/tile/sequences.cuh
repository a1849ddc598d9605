// SPDX-License-Identifier: Apache-2.0
// Which packed sequence a step belongs to, by binary search in SEQ_OFFSETS.
#pragma once

#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

__device__ __forceinline__ int64_t load_offset(const SequenceOffsets& offsets, int64_t n) { return offsets.at(n); }

// The end of the steps that exist: `end`, or the last offset where sequences are packed and it comes before.
__device__ __forceinline__ int64_t end_of_steps(const SequenceOffsets& offsets, int64_t end) {
    return offsets.data == nullptr ? end : min(end, max(offsets.given(offsets.sequences), int64_t{0}));
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

}  // namespace flashscan::cuda
