// SPDX-License-Identifier: Apache-2.0
// The kernel "columns", linear_columns: the linear recurrence of many rows, channels innermost, as a chained scan
// (device/scan/chained_columns.cuh tells ownership, order and synchronisation). A row is a channel of a batch entry; a
// lane walks the steps of one row, or of a pair of 16-bit rows, down a column of memory. A strip is the rows of a warp.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0.
//
// Skew       Where pairs of 16-bit rows are not aligned, each tensor in its own way, lanes load the pairs as memory has
//            them and pass the half that is their neighbour's to it (device/tile/skewed_pairs.cuh). The last lane of a
//            warp then has no rows of its own, so that a strip is a pair narrower.
// Bytes      Every element is read once and written once, and a carry for each row and chunk.
// Limits     Elements are aligned, or pairs of those of up to 4 bytes; pairs of 16-bit data may begin anywhere if
//            channels are contiguous. Where steps are reset or packed, or backward takes states, 16-bit gates, and
//            backward complex ones, are values. Forward takes gates that are broadcast over any axes. Backward takes a
//            gate for each element; one for all channels, by value in 16 bits, whose gradient warps sum over their
//            strips; one by value for all steps, whose gradient blocks sum over their chunk; or one for all batch
//            entries, by value or in 16 bits, whose gradient blocks sum over the entries of their warps. Packed
//            sequences have no states.
// Why        No lane needs another's steps, and little is executed beside the steps: an H200 reaches 95 to 98 % of the
//            stream (a plain kernel that moves the same bytes) where elements have 4 bytes or more; an H100 reaches 94
//            to 97 in 16 bits. Skewed pairs reach 58 to 71 %, where elements one by one reach 45 to 53. See
//            bench/results/tried_linear.md for the sizes of tiles, blocks and sets.
#pragma once

#include "cuda/device/scan/chained_columns.cuh"
#include "cuda/device/tile/aligned_packs.cuh"
#include "cuda/device/tile/skewed_pairs.cuh"
#include "cuda/linear/block_sums.cuh"
#include "cuda/linear/gate_gradient.cuh"
#include "cuda/linear/in_order.cuh"
#include "cuda/linear/record.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

template <typename Ty, int Pack, bool Backward>
struct ColumnsConfig {
    using Shape = TileShape<typename Ty::X, typename Ty::G, Access::channel_packs, Backward, 256, Pack>;
    static constexpr int resident = 2;  // blocks per multiprocessor, for which __launch_bounds__ limits the registers
};

template <typename Ty, int Pack, bool Skewed, bool Backward, bool Shared = false>
struct LinearColumnsWork {
    using Params = LinearParams;
    using Monoid = LinearMonoid<Ty>;
    using Shape = typename ColumnsConfig<Ty, Pack, Backward>::Shape;
    static constexpr bool skewed = Skewed, shares_gates = Shared;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    template <typename T>
    using CopiesOf = std::conditional_t<Skewed, SkewedPairs<T, Shape>, AlignedPacks<T, Shape>>;
    using GateCopies = CopiesOf<G>;
    using Data = CopiesOf<X>;
    using Part = typename Data::Part;
    using Before = StatesBefore<X, Shape, false>;
    using Walker = Walk<Ty, Shape, false, Backward, false>;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr int shift = 1;  // from a step to the one whose state is h before it, backward

    const LinearParams& p;
    const Place& at;
    const Part part;
    Steps<G, Shape> gate;
    Steps<X, Shape> source, states{};
    Events<L> events;
    bool eventful;
    // Backward: of the gradients of gates that are broadcast over time; and over channels, but not over time.
    static constexpr int strip = V * (Skewed ? skewed_pair_lanes : 32);
    using OfTime = TimeSums<GateWide, V, strip>;
    OfTime sums;
    using OfSteps = StepSums<Ty, Shape, strip>;
    // Backward: sums of the gradients of gates that warps share.
    using OfShared = BlockSums<Ty, Shape, false, 0>;
    using InOrder = ChainedInOrder<Walker, OfTime, std::conditional_t<Skewed || Shared, void, OfSteps>,
                                   std::conditional_t<Shared, OfShared, void>>;

    __device__ __forceinline__ LinearColumnsWork(const LinearParams& params, const Place& place, char*)
        : p(params), at(place), part(Part::of(at, p.rows, p.time, L)) {
        if (part.whole)
            fetch<true>();
        else
            fetch<false>();
        events = events_of<Shape, false, Backward>(p, at);
        eventful = may_have_events<Shape, Backward>(p) && events.any();
        GateCopies::arrange(p.gate, at, 0, gate);
        Walker::hold(p, gate);
        Walker::complete(p, at, gate);
        Data::arrange(p.source, at, 0, source);
    }
    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    __device__ __forceinline__ bool sums_steps() const { return Backward && !Skewed && !Shared && OfSteps::wanted(p); }
    __device__ __forceinline__ bool sums_time() const {
        return Backward && !Shared && sums.wanted(p) && (Skewed || p.sum_time != 0);
    }
    template <bool Whole>
    __device__ __forceinline__ void fetch() {
        if constexpr (!Skewed && sizeof(X) == 2) {
            if (p.gate.row == 0)
                GateCopies::fetch_shared(p.gate, at, gate);
            else
                GateCopies::template fetch<Whole>(p.gate, at, part, 0, p.time, gate);
        } else {
            GateCopies::template fetch<Whole>(p.gate, at, part, 0, p.time, gate);
        }
        Data::template fetch<Whole>(p.source, at, part, 0, p.time, source);
        if (gate_wanted()) Data::template fetch<Whole>(p.states, at, part, shift, p.time, states);
    }

    template <typename Then>
    __device__ __forceinline__ void summarize(Map (&through)[V], Then&& then) const {
        const Walker walk{p, at, events};
        Walker::with_kind(p, eventful, [&](auto kind) {
            walk.template summarize<decltype(kind)::value>(gate, source, through);
            then();
        });
    }
    __device__ __forceinline__ Wide enter(int v) const {
        return p.edge_in == nullptr ? Wide{} : static_cast<const Wide*>(p.edge_in)[at.batch * p.rows + at.row + v];
    }
    __device__ __forceinline__ bool is_left() const { return p.edge_out != nullptr; }
    __device__ __forceinline__ void leave(int v, Wide carry) const {
        static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry;
    }

    __device__ __forceinline__ void walk(Wide (&carry)[V]) {
        const Walker walk{p, at, events};
        if constexpr (Backward) {
            Wide first[V];
#pragma unroll
            for (int v = 0; v < V; ++v) first[v] = walk.before_row(v);
            if (gate_wanted()) Data::arrange(p.states, at, shift, states);
            const auto walk_back = [&](auto kind, auto&& take) {
                walk.template backward<decltype(kind)::value>(gate, source, carry, first, Before{at, states, {}}, take);
            };
            if constexpr (Shared) {
                typename OfShared::Writer writer(at);
                OfShared::template with_kind<Walker>(p, eventful, [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[V]) { writer.set(i, values); });
                });
            } else if (sums_time()) {
                with_value_kind(eventful, [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[V]) {
                        if (i < at.steps) sums.add(values);
                    });
                });
            } else if (OfSteps::narrow && sums_steps()) {  // other tiles hold these gradients anyway
                if constexpr (OfSteps::narrow)
                    walk_back(std::integral_constant<Kind, Kind::cuts>{},
                              [&](int i, const GateWide(&values)[V]) { OfSteps::put(gate, i, values); });
            } else {
                Walker::with_kind(p, eventful, [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[V]) { gate.set(i, values); });
                });
                if (gate_wanted() && !sums_steps()) GateCopies::store(gate, p.grad_gate, at, part);
            }
            if (sums_steps()) OfSteps::write(p, at, gate);
        } else {
            Walker::with_kind(p, eventful,
                              [&](auto kind) { walk.template forward<decltype(kind)::value>(gate, source, carry); });
        }
        if (p.result.data != nullptr) Data::store(source, p.result, at, part);
    }
    __device__ __forceinline__ bool write_sums(int64_t chunk, const WarpsInTime& warps, bool again) {
        if constexpr (Shared)
            return OfShared::wanted(p) && OfShared::write(p, at, warps, again);
        else
            return sums_time() && sums.write(p, at, chunk, warps, again);
    }
};

// `Shared` tells that backward warps of a block share gates, whose gradients they sum.
template <typename Ty, int Pack, bool Skewed, bool Backward, bool Shared = false>
__global__ void __launch_bounds__(32 * chained_warps, ColumnsConfig<Ty, Pack, Backward>::resident)
    linear_columns(const __grid_constant__ LinearParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedColumns<LinearColumnsWork<Ty, Pack, Skewed, Backward, Shared>>>(p, sets);
}

}  // namespace flashscan::cuda
