// SPDX-License-Identifier: Apache-2.0
// Sequential walks over steps in memory, which replace what a parallel scan got wrong because products overflowed.
//
// A parallel scan computes the carry into a lane's steps as A c + X from the carry c that enters some steps earlier,
// where A is the product of the gates in between and X their result for a carry of zero. A and X may overflow although
// every state of h' = a h + x is finite. A carry is right if it is the one that the walk from step to step gives, which
// may be infinite or NaN too. Every finite carry is right: without a reset or the begin of a sequence, no later step
// makes an infinite A or X finite again, and `apply` returns X alone where c is exactly zero, so that an infinite A
// does no harm there. Where a carry is not finite, the lane in the end walks again, from a carry between blocks or the
// start of the row, which are right, to its last step, and stores its results once more. Lanes publish no carry for
// other blocks before it is right.
//
// This happens at the end of a kernel, when nothing is left in registers that the call would have to preserve. A lane
// of the kernels of few_long_rows walks many tiles and does not wait for the end: it finds its carry in order and reads
// its tile once more. The warps that find the carries between blocks walk a chunk there whose summary overflowed.
//
// Where the results take the place of their source, a step may be gone when a lane comes to walk it again. There the
// block asks before it stores anything whether a carry of any of its lanes has overflowed, or the summary of its chunk.
// If so, all lanes first find their carries in order and then walk their steps from them. In short_rows.cuh a warp asks
// so before each tile.
//
// Other blocks' steps may be gone too. So where blocks compose the summaries of earlier chunks, a chunk whose summary
// overflowed publishes none at first. Once the carry after the chunk is right, it publishes the map that is cut off
// from what came before and gives that carry. "rows" and "columns" do so whenever chunks are gathered in groups,
// "chunked" where results take the place of their source.
//
// A sum of gradients that contains NaN cannot be corrected afterwards. The lanes whose terms are added up, those of a
// block or of a warp, ask before they write a sum whether a carry of any of them has overflowed, and then all walk
// again.
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
struct RowInOrder {
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
    __device__ __forceinline__ GateWide gate_gradient(int64_t t, GateWide gate, GateWide a, Wide g, bool reset,
                                                      bool last) const {
        Wide h = state_before(t, last);
        if (p.gate_form != gate_value) h = gate_derivative(p.gate_form, gate, a) * h;
        return reset ? GateWide{} : gate_part<GateWide>(multiply(g, conj(h)));
    }

    // Walks from the carry `c` before step `from` to step `to`, which is not walked, stores the results from step
    // `first` on, all in the order of the walk, and returns the carry before `to`. Steps that do not exist are left
    // out. Gradients of gates that are to be summed go to `terms`, of which the first is that of step `first`. Once the
    // carry is NaN nothing finite can follow, so the walk goes on where a packed sequence begins or results have to be
    // stored; if nowhere, it ends.
    __device__ __forceinline__ Wide walk(int64_t from, int64_t first, int64_t to, Wide c, GateWide* terms) const {
        const bool gradients = Backward && p.states.data != nullptr;
        const bool stored = p.in_place == 0 && p.partial == nullptr;  // by the walk before, as NaN where they are
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
                if (gradients) {
                    const GateWide gradient = gate_gradient(t, gate, a, c, reset, last);
                    if (p.partial == nullptr)
                        element_at<G>(p.grad_gate, batch, row, t) = Element<G>::narrow(gradient);
                    else
                        terms[(t - first) * turn] = gradient;
                }
                if (packed() && last && p.carry_out != nullptr)
                    store_sequence_state<Wide>(p.carry_out, p.offsets, t, p.rows, row, Backward ? carry.number() : c);
            }
            if (is_nan(c) && p.reset == nullptr && (!stores || (stored && !packed()))) {
                if (!packed()) break;
                t = (Down ? max(begin, first) : min(begin, first)) - turn;
            }
        }
        return Backward ? carry.number() : c;
    }
};

template <typename Ty, bool Down, bool Backward>
__device__ __noinline__ typename Ty::Wide walk_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                        int64_t from, int64_t first, int64_t to, typename Ty::Wide c,
                                                        typename Ty::GateWide* terms = nullptr) {
    return RowInOrder<Ty, Down, Backward>{p, batch, row}.walk(from, first, to, c, terms);
}

// Whether steps after a carry have to be walked again: nothing becomes finite after one that is not, unless steps are
// reset or packed.
__device__ __forceinline__ bool is_worth_walking(const LinearParams& p, bool finite) {
    return finite || p.reset != nullptr || p.offsets.data != nullptr;
}

// The carry before step `to` of row `row`, walked from the carry `into` before step `from`; `computed`, which is not
// finite, if `into` is not. Steps are neither reset nor packed.
template <typename Ty, bool Down, bool Backward>
__device__ __forceinline__ typename Ty::Wide carry_in_order(const LinearParams& p, uint32_t batch, int64_t row,
                                                            int64_t from, int64_t to, typename Ty::Wide into,
                                                            typename Ty::Wide computed) {
    return is_finite(into) ? walk_in_order<Ty, Down, Backward>(p, batch, row, from, to, to, into) : computed;
}

// The steps of a lane in one of its rows. `tiles` is how many tiles of a warp lie between the carry `into` and the
// lane's own.
template <typename Ty, typename Shape, bool Down, bool Backward>
struct LaneInOrder {
    using Wide = typename Ty::Wide;
    const LinearParams& p;
    const Place& at;
    int64_t row;

    __device__ __forceinline__ int64_t first() const { return Down ? at.t0 + at.steps - 1 : at.t0; }
    __device__ __forceinline__ int64_t beyond() const { return Down ? at.t0 - 1 : at.t0 + at.steps; }
    __device__ __forceinline__ int64_t start(int64_t tiles) const {
        const int64_t span = Shape::L * at.segments(), before = tiles * span;
        return Down ? at.warp_t0 + span - 1 + before : at.warp_t0 - before;
    }
    // Walks up to the lane's steps and these again, and returns the carry after them; that is `after`, which was
    // computed, if nothing can become finite.
    __device__ __forceinline__ Wide again(int64_t tiles, Wide into, Wide after) const {
        if (!is_worth_walking(p, is_finite(into))) return after;
        return walk_in_order<Ty, Down, Backward>(p, at.batch, row, start(tiles), first(), beyond(), into);
    }
    // The two halves, whether they are worth walking or not: the carry into the lane's steps, and the walk from there.
    __device__ __forceinline__ Wide carry(int64_t tiles, Wide into) const {
        return walk_in_order<Ty, Down, Backward>(p, at.batch, row, start(tiles), first(), first(), into);
    }
    __device__ __forceinline__ Wide walk(Wide carry, typename Ty::GateWide* terms = nullptr) const {
        return walk_in_order<Ty, Down, Backward>(p, at.batch, row, first(), first(), beyond(), carry, terms);
    }
};

// `InOrder` of the works of "rows" and "columns" (device/scan/chained_rows.cuh). TimeSums and StepSums are those of
// gate_gradient.cuh, SharedSums those of block_sums.cuh. StepSums and SharedSums are void in kernels without them.
template <typename Walker, typename TimeSums, typename StepSums, typename SharedSums>
struct ChainedInOrder {
    using Ty = typename Walker::Ty;
    using Shape = typename Walker::Shape;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Lane = LaneInOrder<Ty, Shape, Walker::Down, Walker::Backward>;
    static constexpr int L = Shape::L, V = Shape::V;

    static __device__ __forceinline__ void leave(const LinearParams& p, const Place& at, int v, Wide carry) {
        if (p.edge_out != nullptr && holds_step<Shape>(at, Walker::Down ? 0 : p.time - 1))
            static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry;
    }
    static __device__ __forceinline__ bool in_place(const LinearParams& p) { return p.in_place != 0; }
    static __device__ __forceinline__ bool sums_in_warps(const LinearParams& p) {
        if constexpr (Walker::Backward && !std::is_void_v<StepSums>) return StepSums::wanted(p);
        return false;
    }
    static __device__ __forceinline__ Wide again(const LinearParams& p, const Place& at, int v, int64_t warps,
                                                 Wide into, Wide after) {
        const Wide carry = Lane{p, at, at.row + v}.again(warps, into, after);
        leave(p, at, v, carry);
        return carry;
    }
    static __device__ __forceinline__ Wide carry(const LinearParams& p, const Place& at, int v, int64_t warps,
                                                 Wide into) {
        return v < at.rows ? Lane{p, at, at.row + v}.carry(warps, into) : Wide{};
    }
    static __device__ __forceinline__ void walk(const LinearParams& p, const Place& at, uint32_t chunk,
                                                const WarpsInTime& warps, Wide (&carry)[V]) {
        GateWide terms[V][L]{};
#pragma unroll 1
        for (int v = 0; v < at.rows; ++v) {
            carry[v] = Lane{p, at, at.row + v}.walk(carry[v], terms[v]);
            leave(p, at, v, carry[v]);
        }
        if constexpr (Walker::Backward) {
            if (p.partial == nullptr) return;
            if constexpr (!std::is_void_v<SharedSums>) {
                for (int v = 0; v < V; ++v) SharedSums::set_in_order(at, v, terms[v]);
                SharedSums::write(p, at, warps, false);
            } else {
                if constexpr (!std::is_void_v<StepSums>)
                    if (StepSums::wanted(p)) return write_steps(p, at, terms);
                TimeSums sums;
                for (int v = 0; v < V; ++v)
                    for (int i = 0; i < L; ++i) sums.sum[v] = sums.sum[v] + terms[v][i];
                sums.write(p, at, chunk, warps, false);
            }
        }
    }

  private:
    static __device__ __forceinline__ void write_steps(const LinearParams& p, const Place& at,
                                                       const GateWide (&terms)[V][L]) {
        Steps<typename Ty::G, Shape> tile;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            GateWide values[V];
#pragma unroll
            for (int v = 0; v < V; ++v) values[v] = terms[v][i];
            if constexpr (StepSums::narrow)
                StepSums::put(tile, i, values);
            else
                tile.set(i, values);
        }
        StepSums::write(p, at, tile);
    }
};

}  // namespace flashscan::cuda
