// SPDX-License-Identifier: Apache-2.0
// The kernel "stream": the linear recurrence step by step, a thread for each row, without any scan over time.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, with the gradients that follow from it
//
// Ownership  A block is one warp, which owns 32 rows from the first step to the last; each lane owns one of them. No
//            carry passes between lanes, so the bits are those of the sequential recurrence, whatever the other rows
//            and sequences are.
// Bytes      Forward reads two arrays and writes one, backward reads three and writes two, each element once.
// Sync       Only the warp synchronises. Loads are double-buffered: the next tile of L steps is loaded while a lane
//            walks one.
// Limits     None, but it fills a GPU only with rows for several warps on every multiprocessor.
#pragma once

#include "cuda/linear/gate_gradient.cuh"

namespace flashscan::cuda {

template <typename Ty, bool TimeInner, bool Backward>
struct StreamConfig {
    static constexpr Access access = TimeInner ? Access::time : Access::channels;
    // A lane has two such tiles, the one it walks and the next.
    using Shape = TileShape<typename Ty::X, typename Ty::G, access, Backward, 128>;
    using Buffer = TileBuffer<typename Ty::X, typename Ty::G, Shape>;
    static constexpr int buffers = Buffer::staged ? 2 * Buffer::bytes : Buffer::bytes;
    using Sum = GateGradientSum<Ty, Shape, 1>;
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
struct StreamWarp {
    using Config = StreamConfig<Ty, TimeInner, Backward>;
    using Shape = typename Config::Shape;
    using Buffer = typename Config::Buffer;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using GateCopies = Copies<G, Shape>;
    using Data = Copies<X, Shape>;
    using Before = StatesBefore<X, Shape, Down>;
    static constexpr int L = Shape::L, log2_rows = 5;
    struct Tile {
        typename GateCopies::Fetched gate;
        typename Data::Fetched source, states;
    };

    const LinearParams& p;
    int64_t batch, row0, end, tiles;
    int lane;

    __device__ __forceinline__ Place place(int64_t n) const {
        const int64_t t0 = p.begin + (Down ? tiles - 1 - n : n) * L;
        return place_of<Shape>(batch, row0, t0, p.rows, end, lane, log2_rows);
    }
    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    static __device__ __forceinline__ char* buffer_of(int64_t n) {
        return shared_memory() + (Buffer::staged && n % 2 != 0 ? Buffer::bytes : 0);
    }

    __device__ __forceinline__ void fetch(int64_t n, Tile& tile) const {
        if (n < tiles) {
            const Place at = place(n);
            char* const buffer = buffer_of(n);
            GateCopies::fetch(p.gate, at, 0, p.time, buffer + Buffer::gate, tile.gate);
            Data::fetch(p.source, at, 0, p.time, buffer + Buffer::source, tile.source);
            constexpr int before = TimeInner ? 0 : Down ? -1 : 1;
            if (gate_wanted()) Data::fetch(p.states, at, before, p.time, buffer + Buffer::states, tile.states);
        }
        if constexpr (Buffer::staged) ptx::end_copy_group();
    }

    __device__ __forceinline__ void walk(const Tile& tile, int64_t n, typename Config::Sum& sums,
                                         Wide (&carry)[1]) const {
        const Place at = place(n);
        char* const buffer = buffer_of(n);
        if constexpr (Buffer::staged) ptx::wait_for_copy_groups<1>();
        const Events<L> events = events_of<Shape, Down, Backward>(p, at);
        const Walk<Ty, Shape, Down, Backward> walk{p, at, events};
        Steps<G, Shape> gate;
        Steps<X, Shape> source;
        GateCopies::arrange(tile.gate, at, buffer + Buffer::gate, gate);
        Data::arrange(tile.source, at, buffer + Buffer::source, source);
        walk.complete(gate);
        if constexpr (Backward) {
            Steps<X, Shape> states{};
            if (gate_wanted()) Data::arrange(tile.states, at, buffer + Buffer::states, states);
            const Before before{at, states, TimeInner && gate_wanted() ? Before::load_edge(p, at) : Wide{}};
            const bool summed = gate_wanted() && sums.wanted();
            if (summed) sums.begin(at);
            const Wide first[1] = {walk.before_row(0)};
            walk.template backward<Kind::general>(gate, source, carry, first, before,
                                                  [&](int i, const GateWide(&values)[1]) {
                                                      if (summed)
                                                          sums.add(at, i, values, true);
                                                      else
                                                          gate.set(i, values);
                                                  });
            if (gate_wanted() && !summed) GateCopies::store(gate, p.grad_gate, at, buffer + Buffer::gate);
            if (summed && !p.sum_time) {
                if (p.sum_rows)
                    sums.write_row_sums(at, row0 / 32);
                else
                    sums.write_steps(at);
            }
        } else {
            walk.template forward<Kind::general>(gate, source, carry);
        }
        if (p.result.data != nullptr) Data::store(source, p.result, at, buffer + Buffer::source);
    }
};

template <typename Ty, bool TimeInner, bool Down, bool Backward>
__global__ void __launch_bounds__(32) linear_stream(const __grid_constant__ LinearParams p) {
    using Warp = StreamWarp<Ty, TimeInner, Down, Backward>;
    using Config = typename Warp::Config;
    using Wide = typename Ty::Wide;
    constexpr int L = Warp::L;

    const uint32_t groups_of_batch = static_cast<uint32_t>(p.row_groups);  // a block index has 32 bits
    const int64_t batch = blockIdx.x / groups_of_batch, group = blockIdx.x % groups_of_batch;
    const int64_t end = end_of_steps(p.offsets, p.end);
    const int64_t tiles = end > p.begin ? (end - p.begin + L - 1) / L : 0;
    const int lane = static_cast<int>(threadIdx.x);
    const Warp warp{p, batch, group * 32, end, tiles, lane};
    typename Config::Sum sums{p, reinterpret_cast<typename Ty::GateWide*>(shared_memory() + Config::buffers)};

    const int64_t row = group * 32 + lane;
    Wide carry[1] = {};
    if (p.edge_in != nullptr && row < p.rows) carry[0] = static_cast<const Wide*>(p.edge_in)[batch * p.rows + row];
    typename Warp::Tile tile, next;
    warp.fetch(0, tile);
    for (int64_t n = 0; n < tiles; ++n) {
        warp.fetch(n + 1, next);
        warp.walk(tile, n, sums, carry);
        tile = next;
    }
    if (p.edge_out != nullptr && row < p.rows) static_cast<Wide*>(p.edge_out)[batch * p.rows + row] = carry[0];
    if (Backward && p.partial != nullptr && p.sum_time)
        sums.write_time_sums(place_of<typename Warp::Shape>(batch, group * 32, p.begin, p.rows, end, lane, 5), group, 0,
                             0, 0, 0);
}

}  // namespace flashscan::cuda
