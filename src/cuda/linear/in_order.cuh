// SPDX-License-Identifier: Apache-2.0
// Steps walked in order, from memory: what kernels do again where products overflowed.
//
// A parallel scan computes the carry into a lane's steps as A c + X from the carry c that enters some steps earlier,
// where A is the product of the gates in between and X their result for a carry of zero. A and X may overflow although
// every state of h' = a h + x is finite. The carry is then infinite or NaN, for no arithmetic makes either finite
// again, and a carry of exactly zero leaves A out. So a carry that is finite is right. Where it is not, the lane in the
// end walks again, from a carry between blocks or the start of the row, which are right, to its last step, and stores
// its results once more. Lanes publish no carry for other blocks before it is right.
//
// This happens at the end of a kernel, when nothing is left in registers that the call would have to preserve. In the
// kernels of few_long_rows, whose lanes walk many tiles, a lane instead finds its carry in order and then reads its
// tile once more; and the warps that find the carries between blocks walk a chunk whose summary overflowed. Two cases
// are not corrected: results in the memory of their source, whose steps may be overwritten, and sums of gradients of
// gates.
#pragma once

#include "cuda/device/math/finite.cuh"
#include "cuda/device/scan/chained_rows.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

template <typename X>
__device__ __forceinline__ X& element_at(const View& view, uint32_t batch, int64_t row, int64_t t) {
    return *reinterpret_cast<X*>(view.data + batch * view.batch + row * view.row + t * view.time);
}

// The first step, at or after t in the order of the walk, at which the walk enters a packed sequence.
template <bool Down>
__device__ __forceinline__ int64_t next_begin(const SequenceOffsets& offsets, int64_t t) {
    const int64_t n = find_sequence(offsets, offsets.in_memory(t));
    const int64_t steps = offsets.at(n + 1) - offsets.at(n), first = offsets.in_memory(offsets.at(n), steps);
    if (Down) return t == first + steps - 1 ? t : first - 1;
    return t == first ? t : first + steps;
}

// A row that is walked in order.
template <typename Ty, bool Down, bool Backward>
struct InOrder {
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    static constexpr int turn = Down ? -1 : 1;

    const LinearParams& p;
    uint32_t batch;
    int64_t row;

    __device__ __forceinline__ bool packed() const { return p.offsets.data != nullptr; }
    __device__ __forceinline__ GateWide value_of(GateWide gate) const {
        return p.gate_form == gate_value ? gate : gate_of(p.gate_form, gate);
    }
    // h before step t in the order of the forward pass; `last` tells that t is the last step of the backward walk.
    __device__ __forceinline__ Wide state_before(int64_t t, bool last) const {
        if (!last) return Element<X>::widen(element_at<X>(p.states, batch, row, t + turn));
        if (p.state_in == nullptr) return Wide{};
        if (packed()) return load_sequence_state<Wide>(p.state_in, p.offsets, t, p.rows, row);
        return static_cast<const Wide*>(p.state_in)[batch * p.rows + row];
    }
    __device__ __forceinline__ void store_gate_gradient(int64_t t, GateWide gate, GateWide a, Wide g, bool reset,
                                                        bool last) const {
        Wide h = state_before(t, last);
        if (p.gate_form != gate_value) h = gate_derivative(p.gate_form, gate, a) * h;
        const GateWide gradient = reset ? GateWide{} : gate_part<GateWide>(multiply(g, conj(h)));
        element_at<G>(p.grad_gate, batch, row, t) = Element<G>::narrow(gradient);
    }

    // Walks from the carry `c` before step `from` to step `to`, which is not walked, stores the results from step
    // `first` on, all in the order of the walk, and returns the carry before `to`. Steps that do not exist are left
    // out. The walk ends early where all later results are infinite or NaN.
    __device__ __forceinline__ Wide walk(int64_t from, int64_t first, int64_t to, Wide c) const {
        const bool gradients = Backward && p.states.data != nullptr && p.partial == nullptr;
        const StepRange steps = steps_that_exist(p.offsets, 0, p.time);
        const int64_t beyond = Down ? -1 : p.time;
        int64_t t = Down ? min(from, steps.end - 1) : max(from, steps.begin);
        to = Down ? max(to, int64_t{-1}) : min(to, steps.end);
        int64_t begin = packed() ? next_begin<Down>(p.offsets, t) : -1;
        BackwardCarry<Ty> carry{c};
#pragma unroll 1
        for (; (to - t) * turn > 0; t += turn) {
            if (packed() && t == begin) {
                c = p.carry_in == nullptr ? Wide{} : load_sequence_state<Wide>(p.carry_in, p.offsets, t, p.rows, row);
                carry = {c};
                begin = next_begin<Down>(p.offsets, t + turn);
            }
            const bool reset = p.reset != nullptr && p.reset[batch * p.time + p.offsets.in_memory(t)] != 0;
            const bool stores = (t - first) * turn >= 0, last = t + turn == (packed() ? begin : beyond);
            const GateWide gate = Element<G>::widen(element_at<G>(p.gate, batch, row, t)), a = value_of(gate);
            const Wide x = Element<X>::widen(element_at<X>(p.source, batch, row, t));
            if constexpr (Backward) {
                c = carry.added_to(x);
                carry.leave_step(a, c, reset);
            } else {
                c = reset ? x : multiply_add(a, c, x);
            }
            if (stores) {
                if (p.result.data != nullptr) element_at<X>(p.result, batch, row, t) = Element<X>::narrow(c);
                if (gradients) store_gate_gradient(t, gate, a, c, reset, last);
                if (packed() && last && p.carry_out != nullptr)
                    store_sequence_state<Wide>(p.carry_out, p.offsets, t, p.rows, row, Backward ? carry.number() : c);
            }
            if (!packed() && p.reset == nullptr && !is_finite(c)) break;
        }
        return Backward ? carry.number() : c;
    }
};

template <typename Ty, bool Down, bool Backward>
__device__ __noinline__ typename Ty::Wide walk_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                        int64_t from, int64_t first, int64_t to, typename Ty::Wide c) {
    return InOrder<Ty, Down, Backward>{p, batch, row}.walk(from, first, to, c);
}

// Whether the source is still there when results have been stored.
__device__ __forceinline__ bool keeps_source(const LinearParams& p) { return p.source.data != p.result.data; }

// The carry before step `to` of row `row`, walked from the carry `into` before step `from`. Where the steps cannot be
// walked, that is `computed`, which is not finite.
template <typename Ty, bool Down, bool Backward>
__device__ __forceinline__ typename Ty::Wide carry_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                            int64_t from, int64_t to, typename Ty::Wide into,
                                                            typename Ty::Wide computed) {
    if (!keeps_source(p) || !is_finite(into)) return computed;
    return walk_in_order<Ty, Down, Backward>(p, batch, row, from, to, to, into);
}

// Walks the lane's steps of row `row` again, from the carry `into` that enters so many tiles of a warp earlier in time.
// Returns the carry after them; where they cannot be walked, that is `after`, which is not finite.
template <typename Ty, typename Shape, bool Down, bool Backward>
__device__ __forceinline__ typename Ty::Wide walk_lane_again(const LinearParams& p, const Place& at, int64_t row,
                                                             int64_t tiles, typename Ty::Wide into,
                                                             typename Ty::Wide after) {
    if (!keeps_source(p) || !is_finite(into)) return after;
    const int64_t span = Shape::L * at.segments(), before = tiles * span;
    const int64_t from = Down ? at.warp_t0 + span - 1 + before : at.warp_t0 - before;
    const int64_t first = Down ? at.t0 + Shape::L - 1 : at.t0, to = Down ? at.t0 - 1 : at.t0 + Shape::L;
    return walk_in_order<Ty, Down, Backward>(p, at.batch, row, from, first, to, into);
}

// The same in the kernels "rows" and "columns", whose works have it as `again` (device/scan/chained_rows.cuh): the lane
// with a row's last step also stores anew what leaves the row.
template <typename Work>
__device__ __forceinline__ typename Work::Wide walk_chained_again(const LinearParams& p, const Place& at, int v,
                                                                  int64_t warps, typename Work::Wide into,
                                                                  typename Work::Wide after) {
    using Walker = typename Work::Walker;
    using Shape = typename Work::Shape;
    const auto carry = walk_lane_again<typename Walker::Ty, Shape, Walker::Down, Walker::Backward>(p, at, at.row + v,
                                                                                                   warps, into, after);
    if (p.edge_out != nullptr && holds_step<Shape>(at, Walker::Down ? 0 : p.time - 1))
        static_cast<typename Work::Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry;
    return carry;
}

}  // namespace flashscan::cuda
