// SPDX-License-Identifier: Apache-2.0
// The kernel "columns": the linear recurrence of many rows, channels innermost, as a chained scan. Blocks take chunks
// of time, and each waits for the carries from the chunk before and publishes those into the next.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0. A
// strip is the rows (neighbouring channels) that a warp covers.
//
// Ownership  A block of up to 8 warps owns a chunk of consecutive steps of a strip, or of 2^log2_warp_rows strips side
//            by side. A lane holds L steps of V rows in registers.
// Skew       Where pairs of 16-bit rows are not aligned, each tensor in its own way, lanes load the pairs as memory has
//            them and pass the half that is their neighbour's to it (device/tile/skewed_pairs.cuh). The last lane of a
//            warp then has no rows of its own, so that a strip is a pair narrower.
// Passes     1. Every lane loads its steps and summarises them; the summaries of a strip's warps are composed in order.
//            2. Every lane walks its steps with its carries and stores them.
// Order      Blocks go through sets of strips as those of rows.cuh go through sets of rows: through the strips of a set
//            first, then through its chunks (block_order.cuh). The association is fixed by the shape.
// Bytes      Every element is read once and written once, and a carry for each row and chunk.
// Progress   As in chunked.cuh, blocks wait for blocks of lower index only.
// Sync       A block's warps synchronise once, by __syncthreads. Carries between blocks show by their own words whether
//            they have arrived (device/exchange/published_values.cuh); the V carries of a lane share words where they
//            fit.
// Limits     Elements are aligned, or pairs of those of up to 4 bytes; pairs of 16-bit data may begin anywhere if
//            channels are contiguous. Gates are values where steps are reset or packed, or where backward takes states.
//            Backward takes a gate for each element; forward, with rows in pairs, also one for each channel. Packed
//            sequences have no states.
// Why        No lane needs another's steps, and little is executed beside the steps: an H200 reaches 95 to 98 % of the
//            stream where elements have 4 bytes or more; an H100 reaches 94 to 97 in 16 bits. Skewed pairs reach 58 to
//            71 %, where elements one by one reach 45 to 53.
//            See bench/results/tried_linear.md for the sizes of tiles, blocks and sets.
#pragma once

#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/tile/skewed_pairs.cuh"
#include "cuda/linear/block_order.cuh"
#include "cuda/linear/look_back.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

template <typename Ty, int Pack, bool Backward>
struct ColumnsConfig {
    using Shape = TileShape<typename Ty::X, typename Ty::G, Access::channel_packs, Backward, 256, Pack>;
    static constexpr int warps = 8;
    static constexpr int resident = 2;  // blocks per multiprocessor, for which __launch_bounds__ limits the registers
};

// Aligned packs of rows, with the interface of SkewedPairs.
struct AlignedPart {
    static constexpr bool whole = false;
    static __device__ __forceinline__ AlignedPart of(const Place&, int64_t, int64_t, int) { return {}; }
};
template <typename T, typename Shape>
struct AlignedPacks {
    using Base = ChannelCopies<T, Shape>;
    using Part = AlignedPart;
    template <bool>
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, Part, int shift, int64_t time,
                                                 typename Base::Tile& tile) {
        Base::fetch(view, at, shift, time, nullptr, tile);
    }
    static __device__ __forceinline__ void arrange(const View&, const Place&, int, typename Base::Tile&) {}
    static __device__ __forceinline__ void store(const typename Base::Tile& tile, const View& view, const Place& at,
                                                 Part) {
        Base::store(tile, view, at, nullptr);
    }
};

template <typename Ty, int Pack, bool Skewed, bool Down, bool Backward>
struct ColumnsWarp {
    using Config = ColumnsConfig<Ty, Pack, Backward>;
    using Shape = typename Config::Shape;
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
    using Before = StatesBefore<X, Shape, Down>;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr int strip_rows = V * (Skewed ? skewed_pair_lanes : 32);
    using Totals = Record<Ty>[Config::warps][V][32];
    struct Carries {
        Wide of[V];
    };

    static constexpr int shift = Down ? -1 : 1;  // from a step to the one whose state is h before it, backward

    const LinearParams& p;
    Place at;
    uint32_t chunk;
    int warp_row, warp_time, warps_in_time;  // the warp's strip in the block, and its place in the order of the walk
    Totals& totals;  // summaries of all warps; those of a strip lie 2^log2_warp_rows apart in the order of the walk

    static __device__ __forceinline__ ColumnsWarp here(const LinearParams& p, const RowsParams& r, Totals& totals) {
        const int thread = ptx::thread_index(), warp = thread / 32;
        const int warps_in_time = static_cast<int>(blockDim.x / 32) >> p.log2_warp_rows;
        const int warp_row = warp & ((1 << p.log2_warp_rows) - 1), warp_time = warp >> p.log2_warp_rows;
        const auto [group, chunk] = place_in_sets(r);
        const uint32_t batch = p.batches > 1 ? quotient(group, p.by_row_groups) : 0;
        const uint32_t strip = ((group - batch * static_cast<uint32_t>(p.row_groups)) << p.log2_warp_rows) + warp_row;
        // A walk against the order of memory (Down) takes the places from the last to the first.
        const int64_t turn = static_cast<int64_t>(chunk) * warps_in_time + warp_time;
        const int64_t place = Down ? p.chunks * warps_in_time - 1 - turn : turn;
        const int64_t row = static_cast<int64_t>(strip) * strip_rows;
        const int64_t rows = batch < p.batches ? p.rows : 0;
        Place at = place_of<Shape>(batch, row, place * L, Skewed ? min(rows, row + strip_rows) : rows,
                                   end_of_steps(p.offsets, p.time), thread & 31, 5);
        if (Skewed) at.steps = at.warp_steps;  // lanes without rows compute as well, and nothing of theirs is stored
        return {p, at, chunk, warp_row, warp_time, warps_in_time, totals};
    }

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    __device__ __forceinline__ bool is_last() const { return warp_time == warps_in_time - 1; }
    // The lane's carries into a chunk are published at this place, counted in carries of a lane.
    __device__ __forceinline__ int64_t place_of_carries(uint32_t into) const {
        const int64_t packs = (p.rows + V - 1) / V;
        return (static_cast<int64_t>(into) * p.batches + at.batch) * packs + at.row / V;
    }
    __device__ __forceinline__ Record<Ty>& total(int warp, int v) const {
        return totals[(warp << p.log2_warp_rows) + warp_row][v][at.lane];
    }

    template <bool Whole>
    __device__ __forceinline__ void fetch(const Part& part, Steps<G, Shape>& gate, Steps<X, Shape>& source,
                                          Steps<X, Shape>& states) const {
        GateCopies::template fetch<Whole>(p.gate, at, part, 0, p.time, gate);
        Data::template fetch<Whole>(p.source, at, part, 0, p.time, source);
        if (gate_wanted()) Data::template fetch<Whole>(p.states, at, part, shift, p.time, states);
    }

    __device__ __forceinline__ void run() const {
        Words<Carries> known;
        if (chunk > 0 && at.rows > 0) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
            ask_for_value(p.carries, place_of_carries(chunk), known);
        }
        Steps<G, Shape> gate;
        Steps<X, Shape> source, states{};
        const Part part = Part::of(at, p.rows, p.time, L);
        if (part.whole)
            fetch<true>(part, gate, source, states);
        else
            fetch<false>(part, gate, source, states);
        const Events<L> events = events_of<Shape, Down, Backward>(p, at);
        const bool eventful = may_have_events<Shape, Backward>(p) && events.any();
        const Walker walk{p, at, events};
        GateCopies::arrange(p.gate, at, 0, gate);
        Data::arrange(p.source, at, 0, source);
        walk.complete(gate);
        Map through[V];
        with_kind<Ty, false>(p, eventful,
                             [&](auto kind) { walk.template summarize<decltype(kind)::value>(gate, source, through); });
#pragma unroll
        for (int v = 0; v < V; ++v) total(warp_time, v) = to_record<Ty>(through[v]);
        // The carry from the edge is read before the barrier, as the carry that leaves may go to the same memory.
        Wide carry[V];
#pragma unroll
        for (int v = 0; v < V; ++v)
            carry[v] = p.edge_in != nullptr && chunk == 0 && v < at.rows
                           ? static_cast<const Wide*>(p.edge_in)[at.batch * p.rows + at.row + v]
                           : Wide{};
        __syncthreads();
        find_carry(through, known, carry);
        if constexpr (Backward) {
            Wide first[V];
#pragma unroll
            for (int v = 0; v < V; ++v) first[v] = walk.before_row(v);
            if (gate_wanted()) Data::arrange(p.states, at, shift, states);
            with_kind<Ty, false>(p, eventful, [&](auto kind) {
                walk.template backward<decltype(kind)::value>(
                    gate, source, carry, first, Before{at, states, {}},
                    [&](int i, const GateWide(&values)[V]) { gate.set(i, values); });
            });
            if (gate_wanted()) GateCopies::store(gate, p.grad_gate, at, part);
        } else {
            with_kind<Ty, false>(p, eventful,
                                 [&](auto kind) { walk.template forward<decltype(kind)::value>(gate, source, carry); });
        }
        if (p.result.data != nullptr) Data::store(source, p.result, at, part);
        if (p.edge_out == nullptr || chunk + 1 < p.chunks || !is_last()) return;
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < at.rows) static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry[v];
    }

    // Finds the carries into the lane's steps. On entry `carry` is what the rows start from where this is their first
    // chunk. The last warp of a strip publishes the carries into the next chunk: before it waits for its own where all
    // of its rows are cut within the chunk, otherwise right after.
    __device__ __forceinline__ void find_carry(const Map (&through)[V], const Words<Carries>& known,
                                               Wide (&carry)[V]) const {
        Map before[V];  // the composition of the earlier warps' summaries
#pragma unroll
        for (int v = 0; v < V; ++v) before[v] = Ty::identity();
#pragma unroll 1  // unrolled, the loads would need more registers than there are
        for (int w = 0; w < warp_time; ++w)
#pragma unroll
            for (int v = 0; v < V; ++v) before[v] = Ty::compose(before[v], to_map<Ty>(total(w, v)));
        const bool hands = chunk + 1 < p.chunks && is_last() && at.rows > 0;
        Carries next;
        bool cut = true;
        if (hands) {
            if (chunk == 0) ptx::wait_for_launch_before();
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Map whole = Ty::compose(before[v], through[v]);
                next.of[v] = whole.x;
                cut = cut && whole.cut;
            }
            if (cut) publish_value(p.carries, place_of_carries(chunk + 1), next);
        }
        if (chunk > 0 && at.rows > 0) {
            const Carries in = await_value<Carries>(p.carries, place_of_carries(chunk), known);
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = in.of[v];
        }
        __syncwarp();  // lanes leave the wait at different times and would otherwise stay diverged
#pragma unroll
        for (int v = 0; v < V; ++v) {
            carry[v] = Ty::apply(before[v], carry[v]);
            next.of[v] = Ty::apply(through[v], carry[v]);
        }
        if (hands && !cut) publish_value(p.carries, place_of_carries(chunk + 1), next);
    }
};

template <typename Ty, int Pack, bool Skewed, bool Down, bool Backward>
__global__ void __launch_bounds__(32 * ColumnsConfig<Ty, Pack, Backward>::warps,
                                  ColumnsConfig<Ty, Pack, Backward>::resident)
    linear_columns(const __grid_constant__ LinearParams p, const __grid_constant__ RowsParams r) {
    using Warp = ColumnsWarp<Ty, Pack, Skewed, Down, Backward>;
    __shared__ typename Warp::Totals totals;
    Warp::here(p, r, totals).run();
}

}  // namespace flashscan::cuda
