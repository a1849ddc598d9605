// SPDX-License-Identifier: Apache-2.0
// Linear recurrence, many rows: a lane owns rows, a warp streams through time.
//
//     h[t] = a[t] h[t-1] + x[t]            forward
//     g[t] = d[t] + conj(a[t+1]) g[t+1]    backward, with the gradients that follow from it
//
// Ownership  A warp owns 32 rows (32 V channels when 16-bit channels are innermost) from the first step to the last,
//            a lane V of them. Nothing passes between lanes, so the bits are those of the sequential recurrence.
// Bytes      Forward reads two arrays and writes one, backward reads three and writes two, each element once.
// Pipeline   Each warp works on one tile of L steps while the next stages - 2 arrive; results replace the inputs in the
//            tile and leave while the next tile is worked on. Only the warp synchronises.
// Limits     Fills a GPU only with rows for several warps on every multiprocessor. It takes what
//            linear_chunked does not: short time, and sums over rows at every step.
#pragma once

#include "cuda/kernels/gate_gradient.cuh"
#include "cuda/kernels/linear_maps.h"
#include "cuda/kernels/window.cuh"

namespace flashscan::cuda {

template <typename Ty, bool TimeInner, bool Backward>
struct StreamConfig {
    using Shape = TileShape<typename Ty::X, TimeInner, 128, 4>;
    static constexpr int gate_bytes = Shape::template bytes<typename Ty::G>();
    static constexpr int data_bytes = Shape::template bytes<typename Ty::X>();
    static constexpr int stage_bytes = gate_bytes + data_bytes * (Backward ? 2 : 1);
    static constexpr int stages = Backward ? 4 : 6;
    // Behind the stages: the events of one tile, then the barriers of the stages.
    static constexpr int events = stages * stage_bytes;
    static constexpr int barriers = events + (Shape::L + 15) / 16 * 16;
    static constexpr int shared_bytes = barriers + stages * 8;
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
struct Stream {
    using Config = StreamConfig<Ty, TimeInner, Backward>;
    using Shape = typename Config::Shape;
    using X = typename Ty::X;
    using G = typename Ty::G;
    static constexpr int L = Shape::L, stages = Config::stages, log2_rows = 5;

    const LinearParams& p;
    const LinearMaps& maps;
    int lane;
    int64_t batch, row0, end, chunks;

    __device__ __forceinline__ int64_t start_of(int64_t n) const { return p.begin + (Down ? chunks - 1 - n : n) * L; }
    static __device__ __forceinline__ int tile_of(int stage) { return stage * Config::stage_bytes; }
    static __device__ __forceinline__ uint64_t* barrier_of(int stage) {
        return reinterpret_cast<uint64_t*>(shared_memory() + Config::barriers) + stage;
    }
    __device__ __forceinline__ Window window(int64_t n, int shift = 0) const {
        return window_of<Shape>(p, batch, row0, start_of(n), end, L, shift);
    }

    // Starts the loads of the n-th chunk; past the last one it only keeps the count of cp.async groups.
    __device__ __forceinline__ void load(int64_t n, int stage) const {
        if (n < chunks) {
            const int tile = tile_of(stage);
            uint64_t* const barrier = barrier_of(stage);
            const Window here = window(n), states = window(n, before_shift<Shape, Backward, Down>);
            const bool with_states = Backward && p.states.data != nullptr;
            if (lane == 0) {
                int bytes = loads_in_bulk<Shape, G>(p.gate, here) ? bulk_bytes<Shape, G> : 0;
                bytes += loads_in_bulk<Shape, X>(p.source, here) ? bulk_bytes<Shape, X> : 0;
                bytes += with_states && loads_in_bulk<Shape, X>(p.states, states) ? bulk_bytes<Shape, X> : 0;
                ptx::barrier_expect(barrier, static_cast<uint32_t>(bytes));
            }
            load_tile<Shape, G>(tile, p.gate, here, &maps.gate, barrier, log2_rows, lane);
            load_tile<Shape, X>(tile + Config::gate_bytes, p.source, here, &maps.source, barrier, log2_rows, lane);
            if (with_states)
                load_tile<Shape, X>(tile + Config::gate_bytes + Config::data_bytes, p.states, states, &maps.states,
                                    barrier, log2_rows, lane);
        }
        ptx::commit_copies();
    }

    __device__ __forceinline__ void store(int64_t n, int stage) const {
        ptx::fence_copy_engine();
        __syncwarp();
        if (p.result.data != nullptr)
            store_tile<Shape, X>(tile_of(stage) + Config::gate_bytes, p.result, window(n), &maps.result, log2_rows,
                                 lane);
        if (Backward && p.states.data != nullptr && p.partial == nullptr)
            store_tile<Shape, G>(tile_of(stage), p.grad_gate, window(n), &maps.grad_gate, log2_rows, lane);
        ptx::commit_bulk_stores();
    }
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
__global__ void __launch_bounds__(32)
    linear_stream(const __grid_constant__ LinearParams p, const __grid_constant__ LinearMaps maps) {
    using Kernel = Stream<Ty, TimeInner, Down, Backward>;
    using Config = typename Kernel::Config;
    using Shape = typename Config::Shape;
    using Wide = typename Ty::Wide;
    constexpr int L = Shape::L, V = Shape::V, stages = Config::stages, log2_rows = Kernel::log2_rows;

    const int lane_id = static_cast<int>(threadIdx.x);
    const uint32_t groups_of_batch = static_cast<uint32_t>(p.row_groups);  // a grid's divisions fit 32 bits
    const int64_t batch = blockIdx.x / groups_of_batch, group = blockIdx.x % groups_of_batch, row0 = group * 32 * V;
    const int64_t end = end_of_steps(p.offsets, p.end);
    const int64_t chunks = end > p.begin ? (end - p.begin + L - 1) / L : 0;
    const Kernel kernel{p, maps, lane_id, batch, row0, end, chunks};

    Lane lane{};
    lane.batch = batch;
    lane.row = row0 + lane_id * V;
    lane.rows = static_cast<int>(max(min(p.rows - lane.row, static_cast<int64_t>(V)), int64_t{0}));
    lane.events = Config::events;

    if (lane_id == 0) {
        for (int stage = 0; stage < stages; ++stage) ptx::barrier_init(kernel.barrier_of(stage));
        ptx::fence_barrier_init();
    }
    __syncwarp();
    for (int n = 0; n < stages - 2; ++n) kernel.load(n, n);

    SequenceCursor cursor;
    const Walk<Ty, Shape, Down, Backward> walk{p, cursor};
    Wide carry[V];
#pragma unroll
    for (int v = 0; v < V; ++v) carry[v] = walk.load_edge_carry(batch, v, lane);
    GateGradientSum<Ty, Shape> sums{p, lane};

    int stage = 0, phase = 0;
    for (int64_t n = 0; n < chunks; ++n) {
        // The tile that is loaded next left two iterations ago.
        ptx::wait_bulk_reads<1>();
        __syncwarp();
        kernel.load(n + stages - 2, stage < 2 ? stage + stages - 2 : stage - 2);
        ptx::wait_copies<stages - 2>();
        ptx::barrier_wait(kernel.barrier_of(stage), static_cast<uint32_t>(phase));
        lane.t0 = kernel.start_of(n);
        lane.steps = static_cast<int>(min(end - lane.t0, static_cast<int64_t>(L)));
        const bool events = has_events<Backward>(p) && fill_events(Config::events, p, cursor, batch, lane.t0, L, end,
                                                                   first_step<Backward, Down>(p), lane_id);
        __syncwarp();
        const int tile = kernel.tile_of(stage);
        const typename Walk<Ty, Shape, Down, Backward>::Tiles tiles{
            {tile, log2_rows, lane_id, 0},
            {tile + Config::gate_bytes, log2_rows, lane_id, 0},
            {tile + Config::gate_bytes + Config::data_bytes, log2_rows, lane_id, 0}};
        if constexpr (Backward) {
            const Wide edge = TimeInner ? load_edge<typename Ty::X, Down>(p, lane) : Wide{};
            const auto sink = [&](int step, int v, typename Ty::GateWide value) { sums.add(group, step, v, value); };
            if (events)
                walk.template backward<true>(lane, tiles, edge, carry, sink);
            else
                walk.template backward<false>(lane, tiles, edge, carry, sink);
        } else {
            if (events)
                walk.template forward<true>(lane, tiles, carry);
            else
                walk.template forward<false>(lane, tiles, carry);
        }
        kernel.store(n, stage);
        if (++stage == stages) stage = 0, phase ^= 1;
    }
    ptx::wait_copies<0>();
    ptx::wait_bulk_reads<0>();

    if (p.edge_out != nullptr)
        for (int v = 0; v < lane.rows; ++v) static_cast<Wide*>(p.edge_out)[batch * p.rows + lane.row + v] = carry[v];
    if (Backward && p.partial != nullptr && p.sum_time) sums.write_warp(group);
}

}  // namespace flashscan::cuda
