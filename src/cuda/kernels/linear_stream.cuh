// SPDX-License-Identifier: Apache-2.0
// Linear recurrence, many rows: a lane owns rows, a warp streams through time.
//
//     h[t] = a[t] h[t-1] + x[t]            forward
//     g[t] = d[t] + conj(a[t+1]) g[t+1]    backward, with the gradients that follow from it
//
// Ownership  A warp owns 32 rows (32 V channels when 16-bit channels are innermost) from the first step to the last,
//            a lane V of them. Nothing passes between lanes, so the bits are those of the sequential recurrence.
// Bytes      Forward reads two arrays and writes one, backward reads three and writes two, each element once.
// Pipeline   Each warp keeps Stages - 1 tiles of L steps under way by cp.async and works on one; results replace the
//            inputs in the tile and leave by vector stores. Only the warp synchronises.
// Limits     Fills a GPU only when there are rows for several warps on every multiprocessor; else linear_chunked.
#pragma once

#include "cuda/kernels/gate_gradient.cuh"
#include "cuda/kernels/window.cuh"

namespace flashscan::cuda {

template <typename Ty, bool TimeInner, bool Backward>
struct StreamConfig {
    using Shape = TileShape<typename Ty::X, TimeInner, 128>;
    static constexpr int stages = Backward ? 4 : 4;
    static constexpr int gate_bytes = Shape::template bytes<typename Ty::G>();
    static constexpr int data_bytes = Shape::template bytes<typename Ty::X>();
    static constexpr int stage_bytes = gate_bytes + data_bytes * (Backward ? 2 : 1);
    // Events of one tile behind the stages.
    static constexpr int shared_bytes = stages * stage_bytes + (Shape::L + 15) / 16 * 16;
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
__global__ void __launch_bounds__(32) linear_stream(const __grid_constant__ LinearParams p) {
    using Config = StreamConfig<Ty, TimeInner, Backward>;
    using Shape = typename Config::Shape;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    constexpr int L = Shape::L, V = Shape::V, stages = Config::stages, log2_rows = 5;
    constexpr int shift = before_shift<Shape, Backward, Down>;
    extern __shared__ __align__(128) char shared[];

    const int lane_id = static_cast<int>(threadIdx.x);
    const int64_t batch = blockIdx.x / p.row_groups, group = blockIdx.x % p.row_groups, row0 = group * 32 * V;
    const int64_t end = end_of_steps(p.offsets, p.end);
    const int64_t chunks = end > p.begin ? (end - p.begin + L - 1) / L : 0;
    uint8_t* const events = reinterpret_cast<uint8_t*>(shared + stages * Config::stage_bytes);

    Lane lane{};
    lane.gate_step = Shape::template step_bytes<G>(log2_rows);
    lane.source_step = Shape::template step_bytes<X>(log2_rows);
    lane.batch = batch;
    lane.row = row0 + lane_id * V;
    lane.rows = static_cast<int>(max(min(p.rows - lane.row, static_cast<int64_t>(V)), int64_t{0}));
    lane.want_gate_gradient = Backward && p.states.data != nullptr;
    const bool to_tile = p.partial == nullptr;
    const auto start_of = [&](int64_t n) { return p.begin + (Down ? chunks - 1 - n : n) * L; };
    const auto stage_of = [&](int64_t n) { return shared + n % stages * Config::stage_bytes; };
    const auto load = [&](int64_t n) {
        if (n < chunks) {
            const int64_t t0 = start_of(n);
            char* const stage = stage_of(n);
            const auto window = [&](const View& view, int by) {
                return window_of(view, batch, row0, p.rows, t0, end, L, by, p.time);
            };
            load_tile<Shape, G>(stage, p.gate, window(p.gate, 0), log2_rows, lane_id);
            load_tile<Shape, X>(stage + Config::gate_bytes, p.source, window(p.source, 0), log2_rows, lane_id);
            if (Backward && lane.want_gate_gradient)
                load_tile<Shape, X>(stage + Config::gate_bytes + Config::data_bytes, p.states, window(p.states, shift),
                                    log2_rows, lane_id);
        }
        ptx::commit_copies();
    };

    for (int n = 0; n < stages - 1; ++n) load(n);
    SequenceCursor cursor;
    const Walk<Ty, Shape, Down, Backward> walk{p, cursor};
    Wide carry[V];
#pragma unroll
    for (int v = 0; v < V; ++v) carry[v] = p.edge_in != nullptr ? walk.load_state(p.edge_in, batch, v, lane) : Wide{};
    GateGradientSum<Ty, Shape> sums{p, lane};

    for (int64_t n = 0; n < chunks; ++n) {
        load(n + stages - 1);
        ptx::wait_copies<stages - 1>();
        __syncwarp();
        char* const stage = stage_of(n);
        lane.t0 = start_of(n);
        lane.steps = static_cast<int>(min(end - lane.t0, static_cast<int64_t>(L)));
        lane.gate = stage + Shape::template offset<G>(log2_rows, lane_id * V, 0, 0);
        lane.source = stage + Config::gate_bytes + Shape::template offset<X>(log2_rows, lane_id * V, 0, 0);
        lane.states = lane.source + Config::data_bytes;
        const bool any = has_events<Backward>(p) &&
                         fill_events(events, p, cursor, batch, lane.t0, L, end, first_step<Backward, Down>(p), lane_id);
        lane.events = any ? events : nullptr;
        const auto window = [&](const View& view) {
            return window_of(view, batch, row0, p.rows, lane.t0, end, L, 0, p.time);
        };
        if constexpr (Backward) {
            const Wide edge = TimeInner ? load_edge<X, Down>(p.states, lane, p.time) : Wide{};
            walk.backward(lane, edge, carry, to_tile,
                          [&](int step, int v, GateWide value) { sums.add(group, step, v, value); });
            __syncwarp();
            if (p.result.data != nullptr)
                store_tile<Shape, X>(stage + Config::gate_bytes, p.result, window(p.result), log2_rows, lane_id);
            if (lane.want_gate_gradient && to_tile)
                store_tile<Shape, G>(stage, p.grad_gate, window(p.grad_gate), log2_rows, lane_id);
        } else {
            walk.forward(lane, carry);
            __syncwarp();
            store_tile<Shape, X>(stage + Config::gate_bytes, p.result, window(p.result), log2_rows, lane_id);
        }
        __syncwarp();
    }
    ptx::wait_copies<0>();

    if (p.edge_out != nullptr)
        for (int v = 0; v < lane.rows; ++v) static_cast<Wide*>(p.edge_out)[batch * p.rows + lane.row + v] = carry[v];
    if constexpr (Backward) {
        if (p.partial == nullptr || !p.sum_time) return;
        if (p.sum_rows) {
            GateWide total = sums.sum[0];
            if constexpr (V == 2) total = total + sums.sum[1];
            total = sums.butterfly(total, 1, 32);
            if (lane_id == 0) *sums.slot(0, group) = total;
        } else {
            for (int v = 0; v < lane.rows; ++v) *sums.slot(0, lane.row + v) = sums.sum[v];
        }
    }
}

}  // namespace flashscan::cuda
