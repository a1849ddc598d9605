// SPDX-License-Identifier: Apache-2.0
// The kernel "rows": the linear recurrence of many rows, time innermost, as a chained scan. Blocks take chunks of time,
// and each waits for the carry from the chunk before and publishes the one into the next.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0.
//
// Ownership  A block of up to 8 warps owns a chunk of consecutive steps of one row, or of two rows side by side. A lane
//            holds L steps in registers.
// Skew       Lanes own whole aligned vectors of 16 bytes, wherever a row begins in its first one: steps are counted
//            from that vector's first element, and those before the row's first and past its last are the identity.
//            Nothing is shifted, since a row lies alike in all tensors. Elements of the vectors at the ends of a row,
//            which may share them with other rows, go one by one (device/tile/skewed_vectors.cuh).
// Passes     1. Every lane loads its steps and summarises them; the summaries of lanes, then of warps, are composed in
//               order.
//            2. Every lane walks its steps with its carry and stores them.
// Order      Blocks go through sets of rows: through the rows of a set first, then through its chunks
//            (block_order.cuh). A set has about as many rows as blocks run at once. The carry into a chunk is then
//            there when its block begins, and what is read at about the same time lies close together. The association
//            is fixed by the shape.
// Bytes      Every element is read once and written once, and a carry for each row and chunk.
// Progress   As in chunked.cuh, blocks wait for blocks of lower index only.
// Sync       A block's warps synchronise once, by __syncthreads. A carry between blocks shows by its own words whether
//            it has arrived (device/exchange/published_values.cuh).
// Limits     Time is contiguous, and each row begins at the same place within 16 bytes in all tensors. Gates are values
//            where steps are reset or packed. Backward takes a gate for each element; forward also one for several
//            rows, or, where tensors are aligned, for a whole row. Packed sequences have no states.
// Why        Nothing is waited for and little is executed beside the steps: an H200 reaches 93 to 98 % of the stream,
//            80 to 94 % where rows begin or end within vectors. chunked.cuh, which folds summaries and does more
//            besides, reaches 84 to 91 %; see bench/results/tried_linear.md for clusters, resident blocks, and other
//            orders.
#pragma once

#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/tile/skewed_vectors.cuh"
#include "cuda/linear/block_order.cuh"
#include "cuda/linear/look_back.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// The lane's tile; `skew` is the most steps that a row's first vector may hold before the row begins.
template <typename Ty, bool Backward>
struct RowsShape : TileShape<typename Ty::X, typename Ty::G, Access::time_vectors, Backward, 256> {
    static constexpr int skew = 16 / static_cast<int>(sizeof(typename Ty::X)) - 1;
};

template <typename Ty, bool Backward>
struct RowsConfig {
    using Shape = RowsShape<Ty, Backward>;
    static constexpr int warps = 8;
    static constexpr int resident = 2;  // blocks per multiprocessor, for which __launch_bounds__ limits the registers
    using Buffer = TileBuffer<typename Ty::X, typename Ty::G, Shape>;
    static constexpr int buffers = warps * Buffer::bytes;
};

template <typename Ty, bool Down, bool Backward>
struct RowsWarp {
    using Config = RowsConfig<Ty, Backward>;
    using Shape = typename Config::Shape;
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
    using Totals = Record<Ty>[Config::warps];
    static constexpr int L = Shape::L;

    const LinearParams& p;
    Place at;
    uint32_t chunk;
    int warp_time, warps_in_time;  // the warp's place among those of its row, in the order of the walk
    const Record<Ty>* totals;      // summaries of the warps of the row, in the order of the walk
    Record<Ty>* total;             // the warp's own entry there
    char* buffer;                  // the warp's part of dynamic shared memory

    // Elements between the start of the 16-byte vector in which a row begins and the row. Every tensor with a time axis
    // has the same number.
    static __device__ __forceinline__ int skew_of(const View& view, uint32_t batch, uint32_t row) {
        const uint32_t address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(view.data)) +
                                 batch * static_cast<uint32_t>(view.batch) + row * static_cast<uint32_t>(view.row);
        return Shape::skew == 0 ? 0 : static_cast<int>(address % 16 / sizeof(X));
    }

    static __device__ __forceinline__ RowsWarp here(const LinearParams& p, const RowsParams& r, Totals& totals) {
        const int thread = ptx::thread_index(), warp = thread / 32;
        const int warps_in_time = static_cast<int>(blockDim.x / 32) >> p.log2_warp_rows;
        const int warp_row = warp < warps_in_time ? 0 : 1, warp_time = warp - warp_row * warps_in_time;
        const auto [group, chunk] = place_in_sets(r);
        const uint32_t rows = static_cast<uint32_t>(p.rows), row = (group << p.log2_warp_rows) + warp_row;
        const uint32_t batch = p.batches > 1 ? quotient(row, r.by_rows) : 0;
        // A walk against the order of memory (Down) takes the places from the last to the first.
        const int64_t turn = static_cast<int64_t>(chunk) * warps_in_time + warp_time;
        const int64_t place = Down ? p.chunks * warps_in_time - 1 - turn : turn;
        const uint32_t in_batch = row - batch * rows;
        return {p,
                place_of<Shape>(batch, in_batch, place * (32 * L) - skew_of(p.source, batch, in_batch),
                                batch < p.batches ? p.rows : 0, end_of_steps(p.offsets, p.time), thread & 31, 0),
                chunk,
                warp_time,
                warps_in_time,
                totals + warp_row * warps_in_time,
                totals + warp,
                shared_memory() + warp * Config::Buffer::bytes};
    }

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    __device__ __forceinline__ Segments<Ty, Shape, Down> segments() const { return {at}; }
    // The row's carry into a chunk is published at this place.
    __device__ __forceinline__ int64_t place_of_carry(uint32_t into) const {
        return (static_cast<int64_t>(into) * p.batches + at.batch) * p.rows + at.row;
    }

    template <bool Whole>
    __device__ __forceinline__ void fetch(const Part& part, typename GateCopies::Fetched& gate,
                                          typename Data::Fetched& source, typename Data::Fetched& states) const {
        Data::template fetch<Whole>(p.source, at, part, Wide{}, source);
        const GateWide open = open_gate<GateWide>(p.gate_form);
        if (!Backward && p.gate.time == 0)
            GateCopies::fetch_constant(p.gate, at, part, open, gate);
        else
            GateCopies::template fetch<Whole>(p.gate, at, part, open, gate);
        if (gate_wanted()) Data::template fetch<Whole>(p.states, at, part, Wide{}, states);
    }

    __device__ __forceinline__ void run() const {
        Words<Wide> known;
        if (chunk > 0 && at.rows > 0) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
            ask_for_value(p.carries, place_of_carry(chunk), known);
        }
        const Part part = Part::of(at);
        typename GateCopies::Fetched gate_in;
        typename Data::Fetched source_in, states_in;
        if (part.whole())
            fetch<true>(part, gate_in, source_in, states_in);
        else
            fetch<false>(part, gate_in, source_in, states_in);
        Wide edge{};
        if (gate_wanted() && !Before::is_held(p, at)) edge = Before::load_edge(p, at);
        const Events<L> events = events_of<Shape, Down, Backward>(p, at);
        const bool eventful = may_have_events<Shape, Backward>(p) && events.any();
        const Walker walk{p, at, events};

        Steps<G, Shape> gate;
        Steps<X, Shape> source;
        GateCopies::arrange(gate_in, at, part, buffer, gate);
        Data::arrange(source_in, at, part, buffer, source);
        Map through[1];
        with_kind<Ty, false>(p, eventful, [&](auto kind) {
            walk.template summarize<decltype(kind)::value>(gate, source, through);
            segments().scan(through[0]);
        });
        if (segments().is_last()) *total = to_record<Ty>(through[0]);
        // The carry from the edge is read before the barrier, as the carry that leaves may go to the same memory.
        Wide carry[1] = {};
        if (p.edge_in != nullptr && chunk == 0 && at.rows > 0)
            carry[0] = static_cast<const Wide*>(p.edge_in)[at.batch * p.rows + at.row];
        __syncthreads();
        find_carry(through[0], known, carry[0]);
        if constexpr (Backward) {
            Steps<X, Shape> states{};
            if (gate_wanted()) {
                Data::arrange(states_in, at, part, buffer, states);
                const Wide held = Before::held_edge(at, states);
                if (Before::is_held(p, at)) edge = held;
            }
            const Wide first[1] = {};
            with_kind<Ty, false>(p, eventful, [&](auto kind) {
                walk.template backward<decltype(kind)::value>(
                    gate, source, carry, first, Before{at, states, edge},
                    [&](int i, const GateWide(&values)[1]) { gate.set(i, values); });
            });
            if (gate_wanted()) GateCopies::store(gate, p.grad_gate, at, part, buffer);
        } else {
            with_kind<Ty, false>(p, eventful,
                                 [&](auto kind) { walk.template forward<decltype(kind)::value>(gate, source, carry); });
        }
        if (p.result.data != nullptr) Data::store(source, p.result, at, part, buffer);
        const bool last = chunk + 1 == p.chunks && warp_time == warps_in_time - 1 && segments().is_last();
        if (p.edge_out != nullptr && last && at.rows > 0)
            static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row] = carry[0];
    }

    // Finds the carry into the lane's steps. On entry `carry` is what the row starts from where this is its first
    // chunk. One lane publishes the carry into the next chunk: before it waits for its own where the row is cut within
    // the chunk, otherwise right after.
    __device__ __forceinline__ void find_carry(const Map& through, const Words<Wide>& known, Wide& carry) const {
        const bool hands =
            chunk + 1 < p.chunks && warp_time == warps_in_time - 1 && segments().is_last() && at.rows > 0;
        if (p.chunks > 1) ptx::wait_for_launch_before();
        Map whole = Ty::identity();
        if (hands) {
            for (int w = 0; w < warps_in_time; ++w) whole = Ty::compose(whole, to_map<Ty>(totals[w]));
            if (whole.cut) publish_value(p.carries, place_of_carry(chunk + 1), whole.x);
        }
        if (chunk > 0 && at.rows > 0) carry = await_value<Wide>(p.carries, place_of_carry(chunk), known);
        if (hands && !whole.cut) publish_value(p.carries, place_of_carry(chunk + 1), Ty::apply(whole, carry));
        for (int w = 0; w < warp_time; ++w) carry = Ty::apply(to_map<Ty>(totals[w]), carry);
        carry = segments().enter(through, carry);
    }
};

template <typename Ty, bool Down, bool Backward>
__global__ void __launch_bounds__(32 * RowsConfig<Ty, Backward>::warps, RowsConfig<Ty, Backward>::resident)
    linear_rows(const __grid_constant__ LinearParams p, const __grid_constant__ RowsParams r) {
    __shared__ typename RowsWarp<Ty, Down, Backward>::Totals totals;
    RowsWarp<Ty, Down, Backward>::here(p, r, totals).run();
}

}  // namespace flashscan::cuda
