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
    if (p.offsets.data != nullptr && at.steps > 0) {
        const int64_t first = find_sequence(p.offsets, at.t0);
        Mask low = 0, high = 0;
        int64_t from = load_offset(p.offsets, first);
        for (int64_t n = first; n < p.offsets.sequences && from < at.t0 + at.steps; ++n) {
            const int64_t to = load_offset(p.offsets, n + 1);
            if (from < to && from >= at.t0) low |= Mask(1) << (from - at.t0);
            if (from < to && to <= at.t0 + at.steps) high |= Mask(1) << (to - 1 - at.t0);
            from = to;
        }
        events.begin = Down ? high : low;
        events.end = Down ? low : high;
    }
    if (Backward && p.offsets.data == nullptr && p.state_in != nullptr) {
        const int64_t first = (Down ? 0 : p.time - 1) - at.t0;
        if (first >= 0 && first < at.steps) events.end |= Mask(1) << first;
    }
    return events;
}

}  // namespace flashscan::cuda
