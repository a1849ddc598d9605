// SPDX-License-Identifier: Apache-2.0
// Steps at which the recurrence does not simply go on: resets and the edges of packed sequences.
//
// A tile's events are one byte per step, [segment][L], equal for all of its rows (the host folds the batch axis into
// the rows only where there is no RESET). Most tiles have none and take the plain loop.
#pragma once

#include "cuda/kernels/linear_params.h"
#include "cuda/kernels/tile.cuh"

namespace flashscan::cuda {

enum Event : uint8_t {
    event_reset = 1,
    event_low_edge = 2,
    event_high_edge = 4
};

__device__ __forceinline__ int64_t load_offset(const SequenceOffsets& offsets, int64_t n) {
    return offsets.are_i64 ? static_cast<const int64_t*>(offsets.data)[n]
                           : static_cast<int64_t>(static_cast<const int32_t*>(offsets.data)[n]);
}

// Where the steps before `end` that belong to a sequence end.
__device__ __forceinline__ int64_t end_of_steps(const SequenceOffsets& offsets, int64_t end) {
    return offsets.data == nullptr ? end : min(end, load_offset(offsets, offsets.sequences));
}

// The sequence that holds step t: the last n with offsets[n] <= t and a step of its own.
__device__ __forceinline__ int64_t find_sequence(const SequenceOffsets& offsets, int64_t t) {
    int64_t low = 0, high = offsets.sequences;  // offsets[low] <= t < offsets[high]
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (load_offset(offsets, middle) <= t)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Tracks the sequence at the start of a warp's tile while tiles follow each other in either direction.
struct SequenceCursor {
    int64_t n = -1;

    __device__ __forceinline__ void move_to(const SequenceOffsets& offsets, int64_t t) {
        if (n < 0) {
            n = find_sequence(offsets, t);
            return;
        }
        while (load_offset(offsets, n + 1) <= t) ++n;
        while (load_offset(offsets, n) > t) --n;
    }
};

// Fills the events of steps [t0, t0 + steps) of batch entry `batch` at offset `place` of shared memory; true when there
// are any. `first_step` is marked as an edge where it is not negative.
inline __device__ __noinline__ bool fill_events(int place, const LinearParams& p, SequenceCursor& cursor, int64_t batch,
                                                int64_t t0, int steps, int64_t end, int64_t first_step, int lane) {
    uint8_t* const events = reinterpret_cast<uint8_t*>(shared_memory()) + place;
    bool any = false;
    for (int i = lane; i < steps; i += 32) {
        const int64_t t = t0 + i;
        uint8_t event = p.reset != nullptr && t < end && p.reset[batch * p.time + t] != 0 ? event_reset : 0;
        if (t == first_step) event |= event_low_edge | event_high_edge;
        events[i] = event;
        any = any || event != 0;
    }
    __syncwarp();
    if (p.offsets.data != nullptr && t0 < end) {
        cursor.move_to(p.offsets, t0);
        for (int64_t n = cursor.n + lane; n < p.offsets.sequences; n += 32) {
            const int64_t low = load_offset(p.offsets, n), high = load_offset(p.offsets, n + 1) - 1;
            if (low >= t0 + steps) break;
            if (high < low) continue;
            if (low >= t0) events[low - t0] |= event_low_edge;
            if (high < t0 + steps) events[high - t0] |= event_high_edge;
            any = any || low >= t0 || high < t0 + steps;
        }
        __syncwarp();
    }
    return __any_sync(0xffffffffU, any);
}

}  // namespace flashscan::cuda
