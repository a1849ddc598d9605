// SPDX-License-Identifier: Apache-2.0
// The carry into a lane's steps, found step by step: what kernels fall back on where products overflow.
//
// A parallel scan computes the carry into a lane's steps as A c + X from the carry c that enters some steps earlier,
// where A is the product of the gates in between and X their result for a carry of zero. A and X may overflow although
// every state of h' = a h + x is finite. The carry is then infinite or NaN, for no arithmetic makes either finite
// again, and a carry of exactly zero leaves A out. So a carry that is finite is right, and one that is not is found
// here: the lane reads the steps in between from memory and walks them in order. Lanes publish no carry for other
// blocks before it is right. Where the result has the memory of its source, steps may be overwritten by then, and carries
// stay as they are.
#pragma once

#include "cuda/device/math/finite.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

template <typename X>
__device__ __forceinline__ typename Element<X>::Wide load_number(const View& view, uint32_t batch, int64_t row,
                                                                 int64_t t) {
    const char* const from = view.data + batch * view.batch + row * view.row + t * view.time;
    return Element<X>::widen(*reinterpret_cast<const X*>(from));
}

// The first step, at or after t in the order of the walk, at which the walk enters a packed sequence.
template <bool Down>
__device__ __forceinline__ int64_t next_begin(const SequenceOffsets& offsets, int64_t t) {
    const int64_t n = find_sequence(offsets, t), first = offsets.at(n), last = offsets.at(n + 1) - 1;
    if (Down) return t == last ? t : first - 1;
    return t == first ? t : last + 1;
}

// Walks from the carry `c` before step `from` to step `to`, which is not walked, both in the order of the walk, and
// returns the carry before `to`. Calls take(t, a, y) for each step, its gate's value and its result. Steps that do not
// exist are left out; the walk ends where all later results are infinite or NaN too. Plain walks, of unpacked rows
// without resets whose gates are values, load several steps at once.
template <typename Ty, bool Down, bool Backward, bool Plain, typename Take>
__device__ __forceinline__ typename Ty::Wide walk_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                           int64_t from, int64_t to, typename Ty::Wide c, Take&& take) {
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    constexpr int turn = Down ? -1 : 1, together = Plain ? 8 : 1;  // so many steps are loaded at once
    const bool packed = !Plain && p.offsets.data != nullptr, resets = !Plain && p.reset != nullptr;
    const bool values = Plain || p.gate_form == gate_value;
    const int64_t end = end_of_steps(p.offsets, p.end);
    int64_t t = Down ? min(from, end - 1) : max(from, int64_t{0});
    if (!Down) to = min(to, end);
    int64_t begin = packed ? next_begin<Down>(p.offsets, t) : -1;
    BackwardCarry<Ty> carry{c};
#pragma unroll 1
    for (int64_t left = (to - t) * turn; left > 0; left -= together) {
        GateWide gates[together];
        Wide sources[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
            const int64_t at = t + turn * min(int64_t{i}, left - 1);
            gates[i] = load_number<typename Ty::G>(p.gate, batch, row, at);
            sources[i] = load_number<typename Ty::X>(p.source, batch, row, at);
        }
#pragma unroll
        for (int i = 0; i < together; ++i, t += turn) {
            if (i >= left) break;
            if (packed && t == begin) {
                c = p.carry_in == nullptr ? Wide{} : load_sequence_state<Wide>(p.carry_in, p.offsets, t, p.rows, row);
                carry = {c};
                begin = next_begin<Down>(p.offsets, t + turn);
            }
            const bool reset = resets && p.reset[batch * p.time + t] != 0;
            const GateWide a = values ? gates[i] : gate_of(p.gate_form, gates[i]);
            if constexpr (Backward) {
                c = carry.added_to(sources[i]);
                carry.leave_step(a, c, reset);
            } else {
                c = reset ? sources[i] : multiply_add(a, c, sources[i]);
            }
            take(t, a, c);
        }
        if (!packed && !resets && !is_finite(c)) break;
    }
    return Backward ? carry.number() : c;
}

// Returns the carry before step `to`, given the carry `c` before step `from`.
template <typename Ty, bool Down, bool Backward>
__device__ __noinline__ typename Ty::Wide carry_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                         int64_t from, int64_t to, typename Ty::Wide c) {
    return walk_in_order<Ty, Down, Backward, false>(p, batch, row, from, to, c,
                                                    [](int64_t, typename Ty::GateWide, typename Ty::Wide) {});
}

// Whether the source is still there when results have been stored.
__device__ __forceinline__ bool keeps_source(const LinearParams& p) { return p.source.data != p.result.data; }

// The carry into the lane's steps of row `row`, given the carry `into` that enters `warps` warps earlier in time, which
// is finite, and the `computed` one, which is not.
template <typename Ty, typename Shape, bool Down, bool Backward>
__device__ __forceinline__ typename Ty::Wide carry_from(const LinearParams& p, const Place& at, int64_t row,
                                                        int64_t warps, typename Ty::Wide into,
                                                        typename Ty::Wide computed) {
    if (!keeps_source(p)) return computed;
    const int64_t span = Shape::L * at.segments(), before = warps * span;
    const int64_t from = Down ? at.warp_t0 + span - 1 + before : at.warp_t0 - before;
    return carry_in_order<Ty, Down, Backward>(p, at.batch, row, from, Down ? at.t0 + Shape::L - 1 : at.t0, into);
}

}  // namespace flashscan::cuda
