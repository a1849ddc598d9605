// SPDX-License-Identifier: Apache-2.0
// Steps at which the recurrence does not simply go on: resets and the edges of packed sequences, a bit a step.
#pragma once

#include "cuda/kernels/sequences.cuh"
#include "cuda/kernels/steps.cuh"

namespace flashscan::cuda {

// The events of a lane's L steps, bit i that of its step i in the order of memory.
template <int L>
struct Events {
    using Mask = std::conditional_t<(L > 32), uint64_t, uint32_t>;
    Mask reset = 0;
    Mask begin = 0, end = 0;  // first and last step of a sequence in the order of the walk

    static __device__ __forceinline__ bool at(Mask mask, int step) { return (mask >> step & 1) != 0; }
    // In any lane of the warp.
    __device__ __forceinline__ bool any() const { return __any_sync(0xffffffffU, (reset | begin | end) != 0) != 0; }
};

// A lane takes its bits from the words of 32 steps that the warp votes on.
template <int L>
__device__ __forceinline__ typename Events<L>::Mask reset_bits(const uint8_t* reset, const Place& at) {
    using Mask = typename Events<L>::Mask;
    const int mine = at.segment * L, span = at.segments() * L;
    Mask bits = 0;
#pragma unroll 8
    for (int base = 0; base < span; base += 32) {
        const int step = base + at.lane;
        const uint32_t word = __ballot_sync(0xffffffffU, step < at.warp_steps && reset[step] != 0);
        if (base >= mine && base < mine + L)
            bits |= static_cast<Mask>(word) << (base - mine);
        else if (mine > base && mine < base + 32)
            bits = word >> (mine - base);
    }
    return L >= 32 ? bits : bits & ((Mask(1) << (L % 32)) - 1);
}

// First and last steps of sequences among the lane's, by a whole warp; `first` is the lane's first step, counted from
// the warp's. Out of line: it runs while loads are on their way, and packed problems alone need it.
template <typename Mask>
struct SequenceEdges {
    Mask first = 0, last = 0;
};
template <typename Mask>
__device__ __noinline__ SequenceEdges<Mask> sequence_edges(const SequenceOffsets& offsets, int64_t warp_t0,
                                                           int warp_steps, int lane, int first, int steps) {
    constexpr int64_t beyond = 1 << 20;
    SequenceEdges<Mask> edges;
    int64_t n = find_sequence_by_warp(offsets, warp_t0, lane) + lane;
    uint32_t inside;
    do {
        const int64_t from = n <= offsets.sequences ? load_offset(offsets, n) - warp_t0 : beyond;
        const int edge = static_cast<int>(max(min(from, beyond), int64_t{-1}));
        inside = __ballot_sync(0xffffffffU, edge <= warp_steps);
        for (int i = 0; i < __popc(inside); ++i) {  // offsets ascend
            const int step = __shfl_sync(0xffffffffU, edge, i) - first;
            if (step >= 0 && step < steps) edges.first |= Mask(1) << step;
            if (step > 0 && step <= steps) edges.last |= Mask(1) << (step - 1);
        }
        n += 32;
    } while (inside == 0xffffffffU);
    return edges;
}

template <bool Backward>
__device__ __forceinline__ bool may_have_events(const LinearParams& p) {
    return p.reset != nullptr || p.offsets.data != nullptr || (Backward && p.state_in != nullptr);
}

// Lanes that hold no step of a sequence have none. Backward, the first step of an unpacked row is an end of the walk
// where STATE_IN is h before it.
template <int L, bool Down, bool Backward>
__device__ __forceinline__ Events<L> events_of(const LinearParams& p, const Place& at) {
    using Mask = typename Events<L>::Mask;
    Events<L> events;
    if (p.reset != nullptr) events.reset = reset_bits<L>(p.reset + at.batch * p.time + at.warp_t0, at);
    if (p.offsets.data != nullptr && at.warp_steps > 0) {
        const SequenceEdges<Mask> edges =
            sequence_edges<Mask>(p.offsets, at.warp_t0, at.warp_steps, at.lane, at.segment * L, at.steps);
        events.begin = Down ? edges.last : edges.first;
        events.end = Down ? edges.first : edges.last;
    }
    if (Backward && p.offsets.data == nullptr && p.state_in != nullptr) {
        const int64_t first = (Down ? 0 : p.time - 1) - at.t0;
        if (first >= 0 && first < at.steps) events.end |= Mask(1) << first;
    }
    return events;
}

}  // namespace flashscan::cuda
