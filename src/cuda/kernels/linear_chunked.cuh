// SPDX-License-Identifier: Apache-2.0
// Linear recurrence in chunks of time: a block owns a chunk, chunks meet through a carry chain.
//
//     chunk k maps the carry c to A[k] c + X[k], with A[k] the product of its gates and X[k] its result for c = 0
//
// Ownership  A block of 8 warps owns 2^log2_lane_rows packs of V rows and 8 * Segments * L consecutive steps of them, a
//            lane L steps of one pack. The tile of gate and source is read once and stays in shared memory.
// Passes     1. every lane summarises its steps; lanes, then warps, are composed in order into the block's (A, X)
//            2. the block publishes (A, X), looks back for its carry, and walks the tile again with the carry in hand
// Look-back  Chunks are gathered in groups of `group_chunks`. A chunk composes the summaries of the earlier chunks of
//            its group, in a tree fixed by its place, and applies them to the carry that its group starts from, which
//            the last chunk of the group before published. So the association, and with it every bit, is the same on
//            every run, and the chain that is walked one after another is chunks / group_chunks links long.
// Progress   Blocks wait for blocks of lower index only; the hardware starts blocks in the order of their index, as
//            every single-pass scan relies on. blockIdx.x runs first through the axis that is innermost in memory.
// Bytes      Reads and writes every element once, as linear_stream, and a summary of 8 to 32 bytes a row and chunk.
// Sync       What passes between blocks validates itself (look_back.cuh): no flags, no fences.
// Why        On an H200 this beat one warp walking a row from end to end at every shape of 64 MB: a lone warp issues
//            too little. Wider packs (V = 4) read shared memory in fewer instructions, but left 10 % more time.
#pragma once

#include "cuda/kernels/gate_gradient.cuh"
#include "cuda/kernels/linear_maps.h"
#include "cuda/kernels/look_back.cuh"
#include "cuda/kernels/window.cuh"

namespace flashscan::cuda {

template <typename Ty, bool TimeInner, bool Backward>
struct ChunkedConfig {
    using Shape = TileShape<typename Ty::X, TimeInner, 128, 4>;
    static constexpr int warps = 8;
    // Registers are held to what lets this many blocks share a multiprocessor, as many as shared memory does.
    static constexpr int resident = (sizeof(typename Ty::Wide) > 4 ? 2 : 3) - (Backward ? 1 : 0);
    static constexpr int gate_bytes = Shape::template bytes<typename Ty::G>();
    static constexpr int data_bytes = Shape::template bytes<typename Ty::X>();
    static constexpr int warp_bytes = gate_bytes + data_bytes * (Backward ? 2 : 1);
    // Behind the tiles: two barriers a warp, for what the summary needs and for h, then the events where there are any.
    static constexpr int barriers = warps * warp_bytes;
    static constexpr int events = barriers + warps * 16;
    static constexpr int event_bytes = 32 * Shape::L;
};

// One warp's part of the kernel: its place, and the copies of its tiles.
template <typename Ty, bool TimeInner, bool Down, bool Backward>
struct ChunkedWarp {
    using Config = ChunkedConfig<Ty, TimeInner, Backward>;
    using Shape = typename Config::Shape;
    using X = typename Ty::X;
    using G = typename Ty::G;

    const LinearParams& p;
    const LinearMaps& maps;
    int lane, tile, log2_rows, span;
    uint64_t* barriers;
    int64_t batch, row0, t0, end;

    __device__ __forceinline__ Window window(int shift = 0) const {
        return window_of<Shape>(p, batch, row0, t0, end, span, shift);
    }
    __device__ __forceinline__ bool with_states() const { return Backward && p.states.data != nullptr; }

    __device__ __forceinline__ void load() const {
        const Window here = window(), states = window(before_shift<Shape, Backward, Down>);
        if (lane == 0) {
            ptx::barrier_init(barriers);
            ptx::barrier_init(barriers + 1);
            ptx::fence_barrier_init();
            const int gate_bytes = loads_in_bulk<Shape, G>(p.gate, here) ? bulk_bytes<Shape, G> : 0;
            const int source_bytes = loads_in_bulk<Shape, X>(p.source, here) ? bulk_bytes<Shape, X> : 0;
            const int states_bytes =
                with_states() && loads_in_bulk<Shape, X>(p.states, states) ? bulk_bytes<Shape, X> : 0;
            ptx::barrier_expect(barriers, static_cast<uint32_t>(gate_bytes + source_bytes));
            ptx::barrier_expect(barriers + 1, static_cast<uint32_t>(states_bytes));
        }
        __syncwarp();
        load_tile<Shape, G>(tile, p.gate, here, &maps.gate, barriers, log2_rows, lane);
        load_tile<Shape, X>(tile + Config::gate_bytes, p.source, here, &maps.source, barriers, log2_rows, lane);
        ptx::commit_copies();
        if (with_states())
            load_tile<Shape, X>(tile + Config::gate_bytes + Config::data_bytes, p.states, states, &maps.states,
                                barriers + 1, log2_rows, lane);
        ptx::commit_copies();
    }

    __device__ __forceinline__ void store() const {
        ptx::fence_copy_engine();
        __syncwarp();
        if (p.result.data != nullptr)
            store_tile<Shape, X>(tile + Config::gate_bytes, p.result, window(), &maps.result, log2_rows, lane);
        if (with_states() && p.partial == nullptr)
            store_tile<Shape, G>(tile, p.grad_gate, window(), &maps.grad_gate, log2_rows, lane);
        ptx::commit_bulk_stores();
        ptx::wait_bulk_reads<0>();
    }
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
__global__ void __launch_bounds__(256, ChunkedConfig<Ty, TimeInner, Backward>::resident)
    linear_chunked(const __grid_constant__ LinearParams p, const __grid_constant__ LinearMaps maps) {
    using Warp = ChunkedWarp<Ty, TimeInner, Down, Backward>;
    using Config = typename Warp::Config;
    using Shape = typename Config::Shape;
    using Wide = typename Ty::Wide;
    using Map = typename Ty::Map;
    constexpr int L = Shape::L, V = Shape::V, warps = Config::warps;
    using Chain = LookBack<Ty, warps, Shape::max_rows>;
    __shared__ typename Chain::Shared chain_memory;

    const int log2_rows = p.log2_lane_rows, segments = 32 >> log2_rows, span = segments * L;
    // A grid has fewer than 2^31 blocks, so its divisions fit 32 bits.
    const uint32_t groups_of_batch = static_cast<uint32_t>(p.row_groups);
    const uint32_t row_groups = static_cast<uint32_t>(p.batches) * groups_of_batch;
    const uint32_t chunks = static_cast<uint32_t>(p.chunks);
    // Blocks that run at once read what lies together: a row's chunks, or the rows of a chunk.
    const uint32_t chunk = TimeInner ? blockIdx.x % chunks : blockIdx.x / row_groups;
    const uint32_t row_group = TimeInner ? blockIdx.x / chunks : blockIdx.x % row_groups;
    const Chain chain{p, chain_memory, chunk, row_group, row_groups, log2_of<V> + log2_rows};
    const uint32_t batch = chain.row_group / groups_of_batch, group = chain.row_group - batch * groups_of_batch;
    const int64_t row0 = static_cast<int64_t>(group) << chain.log2_rows;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane_id = static_cast<int>(threadIdx.x) & 31;
    const int64_t end = end_of_steps(p.offsets, p.end);
    // Warps and segments are numbered in the order of the walk; Down mirrors their places in memory.
    const int64_t t_warp = p.begin + (Down ? (p.chunks - 1 - chunk) * warps + (warps - 1 - warp)
                                           : static_cast<int64_t>(chunk) * warps + warp) *
                                         span;
    const int pack = TimeInner ? lane_id >> (5 - log2_rows) : lane_id & ((1 << log2_rows) - 1);
    const int segment = TimeInner ? lane_id & (segments - 1) : lane_id >> log2_rows;
    const int place = Down ? segments - 1 - segment : segment;
    const int neighbour = TimeInner ? 1 : 1 << log2_rows;  // lanes between consecutive segments of a row

    const int tile = warp * Config::warp_bytes;
    const Warp mine{p,
                    maps,
                    lane_id,
                    tile,
                    log2_rows,
                    span,
                    reinterpret_cast<uint64_t*>(shared_memory() + Config::barriers) + 2 * warp,
                    batch,
                    row0,
                    t_warp,
                    end};
    mine.load();

    Lane lane{};
    lane.batch = batch;
    lane.row = row0 + pack * V;
    lane.rows = static_cast<int>(max(min(p.rows - lane.row, static_cast<int64_t>(V)), int64_t{0}));
    lane.t0 = t_warp + place * L;
    lane.steps = static_cast<int>(max(min(end - lane.t0, static_cast<int64_t>(L)), int64_t{0}));
    lane.events = Config::events + warp * Config::event_bytes + place * L;
    const typename Walk<Ty, Shape, Down, Backward>::Tiles tiles{
        {tile, log2_rows, pack, place},
        {tile + Config::gate_bytes, log2_rows, pack, place},
        {tile + Config::gate_bytes + Config::data_bytes, log2_rows, pack, place}};

    SequenceCursor cursor;
    const Walk<Ty, Shape, Down, Backward> walk{p, cursor};
    const bool events =
        has_events<Backward>(p) && fill_events(Config::events + warp * Config::event_bytes, p, cursor, batch, t_warp,
                                               span, end, first_step<Backward, Down>(p), lane_id);
    ptx::wait_copies<1>();
    ptx::barrier_wait(mine.barriers, 0);
    __syncwarp();

    // A row's summary up to and with this lane, in the warp.
    Map through[V];
    if (events)
        walk.template summarize<true>(lane, tiles, through);
    else
        walk.template summarize<false>(lane, tiles, through);
#pragma unroll
    for (int v = 0; v < V; ++v) {
        for (int distance = 1; distance < segments; distance *= 2) {
            const Map earlier = Ty::shuffle_map(through[v], (lane_id - distance * neighbour) & 31);
            if (segment >= distance) through[v] = Ty::compose(earlier, through[v]);
        }
        if (segment == segments - 1) chain_memory.totals[warp][pack * V + v] = to_record<Ty>(through[v]);
    }
    __syncthreads();
    chain.publish();
    chain.find_carries([&](int row) -> Wide {
        if (p.edge_in == nullptr || row0 + row >= p.rows) return {};
        return static_cast<const Wide*>(p.edge_in)[batch * p.rows + row0 + row];
    });

    Wide carry[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        const int row = pack * V + v;
        carry[v] = chain_memory.carry[row];
        for (int w = 0; w < warp; ++w) carry[v] = Ty::apply(chain.total_of(w, row), carry[v]);
        const Map before = Ty::shuffle_map(through[v], (lane_id - neighbour) & 31);
        if (segment > 0) carry[v] = Ty::apply(before, carry[v]);
    }
    ptx::wait_copies<0>();
    ptx::barrier_wait(mine.barriers + 1, 0);
    __syncwarp();

    if constexpr (Backward) {
        GateGradientSum<Ty, Shape> sums{p, lane};
        const Wide edge = TimeInner ? load_edge<typename Ty::X, Down>(p, lane) : Wide{};
        const auto sink = [&](int step, int v, typename Ty::GateWide value) { sums.add(0, step, v, value); };
        if (events)
            walk.template backward<true>(lane, tiles, edge, carry, sink);
        else
            walk.template backward<false>(lane, tiles, edge, carry, sink);
        mine.store();
        if (p.partial != nullptr && p.sum_time) sums.template write_block<warps>(group, chunk, log2_rows);
    } else {
        if (events)
            walk.template forward<true>(lane, tiles, carry);
        else
            walk.template forward<false>(lane, tiles, carry);
        mine.store();
    }

    const bool last = chunk + 1 == p.chunks && warp == warps - 1 && segment == segments - 1;
    if (last && p.edge_out != nullptr)
        for (int v = 0; v < lane.rows; ++v) static_cast<Wide*>(p.edge_out)[batch * p.rows + lane.row + v] = carry[v];
}

}  // namespace flashscan::cuda
