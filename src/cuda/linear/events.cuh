// SPDX-License-Identifier: Apache-2.0
// Bit masks of the steps of a lane at which more happens than h' = a h + x: steps that RESET names, and the first and
// the last steps of packed sequences. Each step has a bit in each mask. Warps without events mostly take loops
// without the code for them (walk.cuh).
#pragma once

#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// The events of a lane's L steps; bit i of a mask is for the lane's step i.
template <int L>
struct Events {
    using Mask = std::conditional_t<(L > 32), uint64_t, uint32_t>;
    Mask reset = 0;
    Mask begin = 0, end = 0;  // steps at which the walk enters and leaves a sequence

    static __device__ __forceinline__ bool at(Mask mask, int step) { return (mask >> step & 1) != 0; }
    // Whether any lane of the warp has an event.
    __device__ __forceinline__ bool any() const { return __any_sync(0xffffffffU, (reset | begin | end) != 0) != 0; }
};

// Returns four bits, of which bit i tells whether byte i of `four` is not zero.
__device__ __forceinline__ uint32_t nonzero_bytes(uint32_t four) {
    const uint32_t high = ((four & 0x7f7f7f7fU) + 0x7f7f7f7fU | four) & 0x80808080U;
    return (high >> 7) * 0x10204080U >> 28;
}

// The bits of a lane's steps in the opposite order.
template <int L>
__device__ __forceinline__ typename Events<L>::Mask turned(typename Events<L>::Mask bits, int steps) {
    if (steps <= 0) return 0;
    if constexpr (sizeof(bits) == 8)
        return __brevll(bits) >> (64 - steps);
    else
        return __brev(bits) >> (32 - steps);
}

// The reset bits of a lane's steps, in the order of memory. The lane reads whole vectors of 16 bytes where they lie
// within RESET, and single bytes at its two ends.
template <int L>
__device__ __forceinline__ typename Events<L>::Mask reset_bits(const LinearParams& p, const Place& at) {
    using Mask = typename Events<L>::Mask;
    const uint8_t* const end = p.reset + p.batches * p.time;
    const uint8_t* const mine = p.reset + at.batch * p.time + p.offsets.in_memory(at.t0, at.steps);
    Mask bits = 0;
#pragma unroll 1
    for (int step = -static_cast<int>(reinterpret_cast<uintptr_t>(mine) & 15); step < at.steps; step += 16) {
        const uint8_t* const from = mine + step;
        Mask flags = 0;
        if (from >= p.reset && from + 16 <= end) {
            const uint4 v = *reinterpret_cast<const uint4*>(from);
            flags = nonzero_bytes(v.x) | nonzero_bytes(v.y) << 4 | nonzero_bytes(v.z) << 8 | nonzero_bytes(v.w) << 12;
        } else {
#pragma unroll 1
            for (int i = max(at.first - step, 0); i < 16 && step + i < at.steps; ++i) flags |= Mask(from[i] != 0) << i;
        }
        bits |= step < 0 ? flags >> -step : flags << step;
    }
    return at.steps > 0 ? bits & ~Mask(0) >> (8 * sizeof(Mask) - at.steps) & ~Mask(0) << at.first : 0;
}

// Adds the first and last steps in memory of the sequences that lie in a warp's steps, to bits in the order of memory.
// Offsets that are equal, of which there may be any number, are edges of one place.
template <int L>
__device__ __forceinline__ void add_sequence_edges(const LinearParams& p, const Place& at,
                                                   typename Events<L>::Mask& low, typename Events<L>::Mask& high) {
    using Mask = typename Events<L>::Mask;
    if (at.warp_steps <= 0) return;
    const SequenceOffsets& offsets = p.offsets;
    const int64_t first = offsets.in_memory(at.warp_t0, at.warp_steps);
    const int mine = static_cast<int>(offsets.in_memory(at.t0, at.steps) - first);
    int64_t n = find_sequence_together(offsets, first, at.lane);
    for (bool more = true; more; n += 32) {
        const int64_t offset = offsets.given(min(n + at.lane, offsets.sequences)) - first;
        const bool inside = n + at.lane <= offsets.sequences && offset <= at.warp_steps;
        const int edge = inside ? static_cast<int>(max(offset, int64_t{-1})) : 1 << 30;
        int k = 0;  // the lane that has the first edge which is not before this lane's steps
#pragma unroll
        for (int half = 16; half > 0; half /= 2)
            if (__shfl_sync(0xffffffffU, edge, k + half - 1) < mine) k += half;
        for (bool reached = true; __any_sync(0xffffffffU, reached); ++k) {
            const int step = __shfl_sync(0xffffffffU, edge, k & 31) - mine;
            reached = k < 32 && step <= at.steps;
            if (reached && step >= 0 && step < at.steps) low |= Mask(1) << step;
            if (reached && step >= 1) high |= Mask(1) << (step - 1);
        }
        more = __all_sync(0xffffffffU, inside);
    }
}

// Whether the first step of an unpacked row is an event, at which backward takes STATE_IN as the h before it. With time
// innermost it is none, because StatesBefore (states.cuh) supplies STATE_IN.
template <typename Shape, bool Backward>
__device__ __forceinline__ bool row_has_end(const LinearParams& p) {
    return Backward && !Shape::time_inner && p.offsets.data == nullptr && p.state_in != nullptr;
}
template <typename Shape, bool Backward>
__device__ __forceinline__ bool may_have_events(const LinearParams& p) {
    return p.reset != nullptr || p.offsets.data != nullptr || row_has_end<Shape, Backward>(p);
}

// The bit of an unpacked row's first step, where the lane holds it; the backward walk ends there.
template <int L, bool Down>
__device__ __forceinline__ typename Events<L>::Mask first_step_of_row(const LinearParams& p, const Place& at) {
    const int64_t first = (Down ? 0 : p.time - 1) - at.t0;
    return first >= 0 && first < at.steps ? typename Events<L>::Mask(1) << first : 0;
}

// The events of a lane. Steps past the last packed sequence have none.
template <typename Shape, bool Down, bool Backward>
__device__ __forceinline__ Events<Shape::L> events_of(const LinearParams& p, const Place& at) {
    constexpr int L = Shape::L;
    using Mask = typename Events<L>::Mask;
    Events<L> events;
    const bool mirrored = !Shape::time_inner && p.offsets.mirrored != 0;
    const auto ordered = [&](Mask bits) { return mirrored ? turned<L>(bits, at.steps) : bits; };
    if (p.reset != nullptr) events.reset = ordered(reset_bits<L>(p, at));
    if (p.offsets.data != nullptr) {
        Mask low = 0, high = 0;
        add_sequence_edges<L>(p, at, low, high);
        events.begin = ordered(Down || mirrored ? high : low);
        events.end = ordered(Down || mirrored ? low : high);
    }
    if (row_has_end<Shape, Backward>(p)) events.end = first_step_of_row<L, Down>(p, at);
    return events;
}

}  // namespace flashscan::cuda
