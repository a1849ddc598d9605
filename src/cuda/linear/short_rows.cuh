// SPDX-License-Identifier: Apache-2.0
// The kernel "short_rows", linear_short_rows: short rows with time innermost, each of them by lanes of one warp.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// Ownership  2^k lanes own a row from its first step to its last, so that a warp has 32 / 2^k rows. A row of up to 64
//            vectors of 16 bytes is cut into two tiles, a longer one into four, which follow each other in time. Of a
//            tile each lane holds one vector of every tensor, and neighbouring lanes hold neighbouring vectors.
// Passes     1. Every lane loads its vectors of all tiles, and the summaries of each tile's lanes are scanned.
//            2. Tile after tile, every lane walks its steps from its carry and stores them. The last lane's carry
//               enters the next tile. Where a carry overflowed on the way, the lane walks again in the end; if the
//               results take the place of their source, the warp walks in order from that tile on (in_order.cuh).
// Bytes      Every element is read once and written once.
// Order      The association is fixed by the length of the rows and by the dtype.
// Sync       None beside the warp's own.
// Limits     Rows of up to 128 vectors (512 steps of f32), which are aligned to 16 bytes in all tensors; a gate by
//            value for each element, as wide as the data; no resets, no packed sequences.
// Why        Lanes whose vectors are neighbours need no shared memory to load and store them together, no warp waits
//            for another, and blocks are so small that all multiprocessors end at about the same time. An H200 reaches
//            88 to 98 % of the stream forward and 84 to 97 % backward, where "rows" and "chunked" reach 60 to 85 %. Two
//            shapes are 4 to 6 % slower than by those, f64 of 256 steps and f32 of 512 steps backward; what else was
//            tried is in bench/results/tried_linear.md.
#pragma once

#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/linear/in_order.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// One vector of each tensor is a lane's part of a tile.
template <typename Ty, bool Backward>
using ShortRowsShape =
    TileShape<typename Ty::X, typename Ty::G, Access::time_vectors, Backward, 16 * (Backward ? 3 : 2)>;

template <typename Ty, int Tiles, bool Down, bool Backward>
struct ShortRows {
    using Shape = ShortRowsShape<Ty, Backward>;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Maps = UncutTypes<X, G>;
    using Map = typename Maps::Map;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    using Before = StatesBefore<X, Shape, Down>;
    using Lanes = Segments<Maps, Shape, Down>;
    static constexpr int L = Shape::L, tiles = Tiles;
    static_assert(sizeof(X) == sizeof(G) && L * sizeof(X) == 16);

    // This is the state of a lane after run(). If `walked` is the number of tiles, `overflowed` has a bit for each tile
    // into which the lane's carry was not finite, `any` tells whether a lane of the warp has such a tile, and `carry`
    // is that after the row. Otherwise the warp stopped before tile `walked`, `carry` is that into the tile, and the
    // warp still has to walk it and all later ones in order.
    struct Rest {
        bool any;
        uint32_t overflowed;
        Wide carry;
        int walked = tiles;
    };

    const LinearParams& p;
    uint32_t batch, row;  // the lane's row
    int rows;             // of the lane: 1, or 0 where there is none
    int lane, segment;
    int tile_steps, time;
    bool whole;  // whether all steps of all lanes of the warp exist

    static __device__ __forceinline__ ShortRows here(const LinearParams& p) {
        const int thread = ptx::thread_index(), lane = thread & 31, segments = 32 >> p.log2_lane_rows;
        const uint32_t group = blockIdx.x * short_row_warps + thread / 32;
        const uint32_t batch = p.batches > 1 ? quotient(group, p.by_row_groups) : 0;
        const uint32_t groups = static_cast<uint32_t>(p.row_groups), all_rows = static_cast<uint32_t>(p.rows);
        const uint32_t first = (group - batch * groups) << p.log2_lane_rows;
        const uint32_t row = first + (lane >> (5 - p.log2_lane_rows));
        const bool has_batch = batch < static_cast<uint32_t>(p.batches);
        const int tile_steps = segments * L, time = static_cast<int>(p.time);
        const bool whole = has_batch && time == tiles * tile_steps && first + (1 << p.log2_lane_rows) <= all_rows;
        return {p, batch, row, has_batch && row < all_rows, lane, lane & (segments - 1), tile_steps, time, whole};
    }
    // The first step of tile number k of the walk, and the lane's first step in it.
    __device__ __forceinline__ int tile_start(int k) const { return (Down ? tiles - 1 - k : k) * tile_steps; }
    __device__ __forceinline__ int first_step(int k) const { return tile_start(k) + segment * L; }
    template <bool Whole = false>
    __device__ __forceinline__ bool has_vector(int k) const {
        return Whole || (rows > 0 && first_step(k) < time);
    }
    // As place_of, but in 32 bits, which are enough here.
    __device__ __forceinline__ Place place(int k) const {
        const int log2_lanes = 5 - p.log2_lane_rows, warp_t0 = tile_start(k);
        Place at;
        at.batch = batch;
        at.lane = lane;
        at.log2_rows = p.log2_lane_rows;
        at.pack = lane >> log2_lanes;
        at.segment = segment;
        at.row = row;
        at.t0 = first_step(k);
        at.rows = rows;
        at.steps = has_vector(k) ? L : 0;
        at.first = 0;
        at.warp_row = at.row - at.pack;
        at.warp_t0 = warp_t0;
        at.warp_rows = static_cast<int>(max(min(p.rows - at.warp_row, int64_t{32} >> log2_lanes), int64_t{0}));
        at.warp_steps = min(max(time - warp_t0, 0), tile_steps);
        return at;
    }
    __device__ __forceinline__ Wide enter() const {
        const bool given = p.edge_in != nullptr && rows > 0;
        return given ? static_cast<const Wide*>(p.edge_in)[batch * p.rows + row] : Wide{};
    }
    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }

    // The lane's vector in the row's first tile in memory, and how far from it that of tile k lies.
    __device__ __forceinline__ char* row_of(const View& view) const {
        return view.data + batch * view.batch + row * view.row + segment * 16;
    }
    __device__ __forceinline__ int offset_of(int k) const { return tile_start(k) * (16 / L); }

    // Steps that do not exist become `absent`. Once tells that no lane needs the elements of another, so that they need
    // not stay in a cache.
    template <bool Whole, bool Once, typename T>
    __device__ __forceinline__ void load(const View& view, typename Element<T>::Wide absent,
                                         Steps<T, Shape> (&tile)[tiles]) const {
        const char* const from = row_of(view);
#pragma unroll
        for (int k = 0; k < tiles; ++k) {
            if constexpr (!Whole)
#pragma unroll
                for (int i = 0; i < L; ++i) tile[k].set(i, 0, absent);
            if (has_vector<Whole>(k)) load_words<4, Once>(from + offset_of(k), tile[k].word);
        }
    }
    template <typename T>
    __device__ __forceinline__ void store(const Steps<T, Shape>& tile, const View& view, int k) const {
        if (view.data != nullptr && has_vector(k)) store_words<4>(tile.word, row_of(view) + offset_of(k));
    }

    __device__ __forceinline__ Rest run() const {
        Steps<G, Shape> gate[tiles];
        Steps<X, Shape> source[tiles], states[tiles];
        const auto load_all = [&](auto is_whole) {
            constexpr bool Whole = decltype(is_whole)::value;
            load<Whole, true>(p.gate, one(GateWide{}), gate);
            load<Whole, true>(p.source, Wide{}, source);
            if (gate_wanted()) load<Whole, false>(p.states, Wide{}, states);
        };
        if (whole)
            load_all(std::true_type{});
        else
            load_all(std::false_type{});
        // Backward: the state beyond the lane's vector, from memory where no lane beside it holds that.
        Wide edge[tiles];
        if (gate_wanted())
#pragma unroll
            for (int k = 0; k < tiles; ++k) {
                const Place at = place(k);
                edge[k] = Before::is_held(p, at) ? Wide{} : Before::load_edge(p, at);
            }
        Wide carry = enter();
        const Events<L> none;
        Map through[tiles];
#pragma unroll
        for (int k = 0; k < tiles; ++k) {
            Map summary[1];
            Walker{p, place(k), none}.template summarize<Kind::plain>(gate[k], source[k], summary);
            through[k] = summary[0];
        }
        Lanes{place(0)}.scan(through);

        uint32_t overflowed = 0;
#pragma unroll
        for (int k = 0; k < tiles; ++k) {
            const Place at = place(k);
            const Lanes lanes{at};
            Wide own[1] = {lanes.enter(through[k], carry)};
            const bool again = !is_finite(own[0]) && rows > 0;
            if (again) overflowed |= 1U << k;
            if (p.in_place != 0 && __any_sync(0xffffffffU, again)) return {true, 0, carry, k};
            const Walker walk{p, at, none};
            if constexpr (Backward) {
                if (gate_wanted()) {
                    const Wide held = Before::held_edge(at, states[k]);
                    if (Before::is_held(p, at)) edge[k] = held;
                }
                const Wide first[1] = {};
                StepWriter<G, Shape, Down> writer{gate[k]};
                walk.template backward<Kind::plain>(gate[k], source[k], own, first, Before{at, states[k], edge[k]},
                                                    [&](int i, const GateWide(&values)[1]) { writer.set(i, values); });
                if (gate_wanted()) store(gate[k], p.grad_gate, k);
            } else {
                walk.template forward<Kind::plain>(gate[k], source[k], own);
            }
            store(source[k], p.result, k);
            carry = shuffle(own[0], lanes.last_lane());
        }
        return {__any_sync(0xffffffffU, overflowed != 0) != 0, overflowed, carry};
    }
    // Stores what leaves the row.
    __device__ __forceinline__ void leave(Wide carry) const {
        if (p.edge_out != nullptr && rows > 0 && Lanes{place(0)}.is_last())
            static_cast<Wide*>(p.edge_out)[batch * p.rows + row] = carry;
    }
    // Walks again, in order, the tiles into which the lane's carry overflowed, or all those that are not walked yet,
    // and stores what leaves the row.
    __device__ __forceinline__ void finish(Rest rest) const {
        using Lane = LaneInOrder<Ty, Shape, Down, Backward>;
#pragma unroll 1
        for (int k = 0; k < tiles; ++k) {
            if ((rest.overflowed >> k & 1) == 0) continue;
            const Place at = place(k);
            const Wide after = Lane{p, at, row}.again(k, enter(), rest.carry);
            if (k == tiles - 1) rest.carry = after;
        }
#pragma unroll 1
        for (int k = rest.walked; k < tiles; ++k) {
            const Place at = place(k);
            const Lane steps{p, at, row};
            Wide carry = rows > 0 ? steps.carry(0, rest.carry) : Wide{};
            __syncwarp();
            if (rows > 0) carry = steps.walk(carry);
            __syncwarp();
            rest.carry = shuffle(carry, Lanes{at}.last_lane());
        }
        __syncwarp();  // what leaves a row may take the place of what entered it
        leave(rest.carry);
    }
};

// Not inlined: it is rarely called, and its code then lies apart from the rest.
template <typename Rows>
__device__ __noinline__ void finish_short_rows(const LinearParams& p, typename Rows::Rest rest) {
    Rows::here(p).finish(rest);
}

template <typename Ty, int Tiles, bool Down, bool Backward>
__global__ void __launch_bounds__(32 * short_row_warps) linear_short_rows(const __grid_constant__ LinearParams p) {
    using Rows = ShortRows<Ty, Tiles, Down, Backward>;
    const Rows lane = Rows::here(p);
    const auto rest = lane.run();
    if (rest.any) [[unlikely]]
        finish_short_rows<Rows>(p, rest);
    else
        lane.leave(rest.carry);
}

}  // namespace flashscan::cuda
