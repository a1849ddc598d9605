// SPDX-License-Identifier: Apache-2.0
// The kernel "rows", linear_rows: the linear recurrence with time innermost as a chained scan
// (device/scan/chained_rows.cuh tells ownership, order and synchronisation). It takes many rows, and also few long rows
// where the kernel "few_long_rows" does not take these.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0.
//
// Ownership  A block of up to 8 warps owns a chunk of one row, of two, or of up to 8 that share gates; a lane holds L
//            steps in registers.
// Bytes      Every element is read once and written once. Many rows have a carry for each chunk and row; few rows have
//            a summary for each chunk, and a carry for each group of chunks.
// Limits     Time is contiguous, and each row begins at the same place within 16 bytes in all tensors. Where steps
//            are reset or packed, gates are values, not logs or logits, if they have 16 bits or, backward, are complex.
//            Packed sequences have no states. No BATCH_INVARIANT.
// Gates      Several rows may share the gates of their steps. Backward, blocks whose warps have such rows sum the
//            gradient over these; otherwise each element leaves a term. A row may have one gate for all of its steps,
//            whose gradient blocks sum over their chunk.
// Why        With many rows a block's carry is there when the block asks for it, and little is executed beside the
//            steps: an H200 reaches 93 to 98 % of the stream (a plain kernel that moves the same bytes), 80 to 94 %
//            where rows begin or end within vectors. chunked_general.cuh, which looks back and does more besides,
//            reaches 84 to 91 %; see bench/results/tried_linear.md for clusters, resident blocks, and other orders.
// Few rows   Blocks wait for the chunks of their group, with their steps in registers: an H100 reaches 73 to 87 % of
//            the stream with 16 rows and 85 to 91 % with 128, 65 to 73 % with one. The blocks of few_long_rows/ load
//            their next chunks meanwhile, and reach 73 to 84 % with one row. Tiles that are brought into L2 ahead, as
//            those of numbers are, gain nothing here.
#pragma once

#include "cuda/device/scan/chained_rows.cuh"
#include "cuda/device/tile/skewed_vectors.cuh"
#include "cuda/linear/block_sums.cuh"
#include "cuda/linear/gate_gradient.cuh"
#include "cuda/linear/in_order.cuh"
#include "cuda/linear/record.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// The lane's tile; `skew` is the most steps that a row's first vector may hold before the row begins.
template <typename Ty, bool Backward>
struct RowsShape : TileShape<typename Ty::X, typename Ty::G, Access::time_vectors, Backward, 256> {
    static constexpr int skew = 16 / static_cast<int>(sizeof(typename Ty::X)) - 1;
};

template <typename Ty, bool Down_, bool Backward, bool Shared = false>
struct LinearRowsWork {
    using Params = LinearParams;
    using Monoid = LinearMonoid<Ty>;
    using Shape = RowsShape<Ty, Backward>;
    static constexpr bool Down = Down_, shares_gates = Shared;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    using GateCopies = SkewedVectors<G, Shape>;
    using Data = SkewedVectors<X, Shape>;
    using Part = typename Data::Part;
    using Before = StatesBefore<X, Shape, Down>;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    static constexpr int buffer_bytes = TileBuffer<X, G, Shape>::bytes;

    const LinearParams& p;
    const Place& at;
    char* buffer;
    const Part part;
    typename Data::Fetched states_in;  // backward: states as they were loaded, arranged into steps only in the walk
    Wide edge{};
    Events<Shape::L> events;
    Steps<G, Shape> gate;
    Steps<X, Shape> source;
    using OfTime = TimeSums<GateWide, 1, 1>;
    // Backward: sums of the gradients of gates that warps share.
    using OfShared = BlockSums<Ty, Shape, Down, buffer_bytes>;
    using InOrder = ChainedInOrder<Walker, OfTime, void, std::conditional_t<Shared, OfShared, void>>;
    OfTime sums;  // backward, of the gradients of gates that are broadcast over time

    // Every tensor with a time axis has the same number.
    static __device__ __forceinline__ int skew_of(const LinearParams& p, uint32_t batch, uint32_t row) {
        const View& view = p.source;
        const uint32_t address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(view.data)) +
                                 batch * static_cast<uint32_t>(view.batch) + row * static_cast<uint32_t>(view.row);
        return Shape::skew == 0 ? 0 : static_cast<int>(address % 16 / sizeof(X));
    }

    __device__ __forceinline__ LinearRowsWork(const LinearParams& params, const Place& place, char* memory)
        : p(params), at(place), buffer(memory), part(Part::of(at)) {
        typename GateCopies::Fetched gate_in;
        typename Data::Fetched source_in;
        if (part.whole())
            fetch<true>(gate_in, source_in);
        else
            fetch<false>(gate_in, source_in);
        if (gate_wanted() && !Before::is_held(p, at)) edge = Before::load_edge(p, at);
        events = events_of<Shape, Down, Backward>(p, at);
        GateCopies::arrange(gate_in, at, part, buffer, gate);
        Walker::hold(p, gate);
        Data::arrange(source_in, at, part, buffer, source);
    }
    // Computed at each use: a flag that lives as long as the tile would be spilled to local memory, and its reload
    // would wait behind the tile's loads.
    __device__ __forceinline__ bool eventful() const { return may_have_events<Shape, Backward>(p) && events.any(); }
    __device__ __forceinline__ bool writes() const { return p.result.data != nullptr || gate_wanted(); }
    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    __device__ __forceinline__ bool sums_gate() const { return Backward && !Shared && sums.wanted(p); }
    template <bool Whole>
    __device__ __forceinline__ void fetch(typename GateCopies::Fetched& gate_in, typename Data::Fetched& source_in) {
        Data::template fetch<Whole>(p.source, at, part, Wide{}, source_in);
        const GateWide open = open_gate<GateWide>(p.gate_form);
        if (p.gate.time == 0)
            GateCopies::fetch_constant(p.gate, at, part, open, gate_in);
        else
            GateCopies::template fetch<Whole>(p.gate, at, part, open, gate_in);
        if (gate_wanted()) Data::template fetch<Whole>(p.states, at, part, Wide{}, states_in);
    }

    template <typename Then>
    __device__ __forceinline__ void summarize(Map (&through)[1], Then&& then) const {
        const Walker walk{p, at, events};
        Walker::with_kind(p, eventful(), [&](auto kind) {
            walk.template summarize<decltype(kind)::value>(gate, source, through);
            then();  // inside the branch, where the compiler knows whether maps can be cut
        });
    }
    __device__ __forceinline__ Wide enter(int) const {
        return p.edge_in == nullptr ? Wide{} : static_cast<const Wide*>(p.edge_in)[at.batch * p.rows + at.row];
    }
    __device__ __forceinline__ bool is_left() const { return p.edge_out != nullptr; }
    __device__ __forceinline__ void leave(int, Wide carry) const {
        static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row] = carry;
    }

    __device__ __forceinline__ void walk(Wide (&carry)[1]) {
        const Walker walk{p, at, events};
        if constexpr (Backward) {
            Steps<X, Shape> states{};
            if (gate_wanted()) {
                Data::arrange(states_in, at, part, buffer, states);
                const Wide held = Before::held_edge(at, states);
                if (Before::is_held(p, at)) edge = held;
            }
            const Wide first[1] = {};
            const auto walk_back = [&](auto kind, auto&& take) {
                walk.template backward<decltype(kind)::value>(gate, source, carry, first, Before{at, states, edge},
                                                              take);
            };
            if constexpr (Shared) {
                typename OfShared::Writer writer(at);
                OfShared::template with_kind<Walker>(p, eventful(), [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[1]) { writer.set(i, values); });
                });
            } else if (sums_gate()) {
                with_value_kind(eventful(), [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[1]) {
                        if (walk.exists(i)) sums.add(values);
                    });
                });
            } else {
                StepWriter<G, Shape, Down> writer{gate};
                Walker::with_kind(p, eventful(), [&](auto kind) {
                    walk_back(kind, [&](int i, const GateWide(&values)[1]) { writer.set(i, values); });
                });
                if (gate_wanted()) GateCopies::store(gate, p.grad_gate, at, part, buffer);
            }
        } else {
            Walker::with_kind(p, eventful(),
                              [&](auto kind) { walk.template forward<decltype(kind)::value>(gate, source, carry); });
        }
        if (p.result.data != nullptr) Data::store(source, p.result, at, part, buffer);
    }
    __device__ __forceinline__ bool write_sums(int64_t chunk, const WarpsInTime& warps, bool again) {
        if constexpr (Shared)
            return OfShared::wanted(p) && OfShared::write(p, at, warps, again);
        else
            return sums_gate() && sums.write(p, at, chunk, warps, again);
    }
};

template <typename Ty, bool Backward>
struct RowsConfig {
    using Shape = RowsShape<Ty, Backward>;
    // The most warps of a block, and blocks per multiprocessor, for which __launch_bounds__ limits the registers.
    // Blocks of complex numbers are half as large, of which twice as many run at once; forward those of f64 run three.
    static constexpr int warps = Ty::complex_gate ? chained_warps / 2 : chained_warps;
    static constexpr int resident = !Ty::complex_gate ? 2 : sizeof(typename Ty::X) > 8 && !Backward ? 3 : 4;
};

// `Shared` tells that backward warps of a block share gates, whose gradients they sum.
template <typename Ty, bool Down, bool Backward, bool Shared = false>
__global__ void __launch_bounds__(32 * RowsConfig<Ty, Backward>::warps, RowsConfig<Ty, Backward>::resident)
    linear_rows(const __grid_constant__ LinearParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedRows<LinearRowsWork<Ty, Down, Backward, Shared>>>(p, sets);
}

}  // namespace flashscan::cuda
