// SPDX-License-Identifier: Apache-2.0
// The kernel "few_long_rows" with channels innermost, linear_few_long_rows_channels: the linear recurrence of up to 128
// long rows by a persistent kernel, whose blocks walk one chunk after another, with specialised warps for copies and
// for carries.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk is some steps of a strip, which is up to 128 bytes of neighbouring rows. It maps the carry c of a row to
// A c + X, where A is the product of the row's gates and X its result for c = 0. The blocks are divided into teams,
// each with strips of its own. The chunks of a team are numbered one strip after the other, and a wave is the next n of
// them, one for each of the team's n blocks.
//
// Ownership  Block b of a team owns chunks b, b + n, b + 2 n, ... Its 8 walking warps follow each other in time, and a
//            lane holds L steps of 4 rows. Two more warps move chunks between memory and a ring buffer of stages in
//            shared memory (channels_innermost_copies.cuh), five find carries (channels_innermost_carries.cuh).
// Passes     1. A warp reads its part of chunk k + ahead from the ring and summarises it, where `ahead` is 4, of f32 3.
//               Its totals go to the warp that publishes, which returns the composition of the totals of the warps
//               before it.
//            2. It waits for the carry into chunk k, walks its steps and releases the stage, which is stored and then
//               filled with a later chunk. A carry that overflowed is found in order (in_order.cuh).
// Bytes      Every element is read once and written once, and 32 bytes for each row and chunk.
// Order      The association follows from the shape and the number of blocks, so that a GPU with another number of
//            multiprocessors gives other bits.
// Progress   All blocks wait for each other, so the launch is cooperative and has no more blocks than run at once.
// Sync       Values between blocks carry the number of their wave as a tag; a barrier of the grid, while the first
//            loads are under way, precedes them. The warps of a block synchronise by mbarriers in shared memory.
// Limits     Gates are values for each element, of the data's dtype (bf16, f16; f32 backward alone); nothing is reset
//            or packed; channels lie side by side in whole 16-byte vectors; each block has 3 chunks or more; no
//            BATCH_INVARIANT; compute capability 9.0 and newer.
// Why        As time_innermost.cuh. The carries of each row are found by a block of its own, so that this work is
//            spread over the device. A carry takes 5 to 7 us, of which a summary's way to its reducer takes 2 to 6 us,
//            as loads under way delay it. With 16 channels of 2^20 steps in bf16 an H200 takes 49 us forward where
//            "chunked" takes 60, 69 instead of 104 backward; in f32 131 instead of 154 backward. This layout takes
//            longer than time innermost because of the walking warps: some 60 instructions an element, most of them to
//            compose a warp's segments.
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/tile/stage_tile.cuh"
#include "cuda/linear/few_long_rows/channels_innermost_carries.cuh"
#include "cuda/linear/few_long_rows/channels_innermost_copies.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// L is odd, so that the steps of neighbouring lanes lie an odd number of vectors, or of rows' bytes, apart in shared
// memory and reading them has no bank conflicts.
template <typename X, bool Backward>
struct StripShape {
    static constexpr Access access = Access::channel_packs;
    static constexpr bool time_inner = false;
    static constexpr int V = 4;
    static constexpr int L = sizeof(X) == 4 ? 3 : Backward ? 5 : 7;
    template <typename T>
    static constexpr int element_bytes = sizeof(T);
};

template <typename X, bool Backward>
struct StripConfig {
    using Ty = UncutTypes<X, X>;
    using Shape = StripShape<X, Backward>;
    static constexpr bool backward = Backward;
    static constexpr int size = static_cast<int>(sizeof(X));
    static constexpr int warps = 8;          // warps that walk
    static constexpr int rows = 128 / size;  // the most rows of a chunk
    static constexpr int lane_bytes = Shape::L * Shape::V * size, tile_bytes = warps * 32 * lane_bytes;
    static constexpr int stage_bytes = (Backward ? 3 : 2) * tile_bytes;
    static constexpr int flight = 2;                                  // chunks that are being loaded at once
    static constexpr int ring = (226000 - 128 * rows) / stage_bytes;  // stages that a block has room for
    static constexpr int ahead = ring - flight - 1;                   // chunks that are summarised before one is walked
    using Carries = StripCarries<Types<X, X>, warps, ahead, rows>;
    using Ring = StripRing<warps, ring, flight>;
    static constexpr int threads = 32 * (warps + 2 + Carries::helpers);
};

// Supplies h before each step of a lane: `states` were loaded from one step earlier, and `edge` is h before the row's
// first step, which is the lane's step number `first`.
template <typename X, typename Shape>
struct StripStatesBefore {
    using Wide = typename Element<X>::Wide;
    const Steps<X, Shape>& states;
    int first;
    const Wide (&edge)[Shape::V];
    __device__ __forceinline__ Wide operator()(int i, int v) const { return i == first ? edge[v] : states.get(i, v); }
};

// One of the warps that walk.
template <typename X, bool Down, bool Backward>
struct StripWarp {
    using Config = StripConfig<X, Backward>;
    using Shape = typename Config::Shape;
    using Carries = typename Config::Carries;
    using Ring = typename Config::Ring;
    using Ty = typename Config::Ty;
    using Tile = Steps<X, Shape>;
    using Wide = typename Ty::Wide;
    using Map = typename Ty::Map;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    static constexpr int L = Shape::L, V = Shape::V, ahead = Config::ahead, size = Config::size;

    const LinearParams& p;
    const Carries& carries;
    const Ring& ring;
    int lane, warp;

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    // The number of the warp's part of a chunk, in the order of memory.
    __device__ __forceinline__ int part() const { return Down ? Config::warps - 1 - warp : warp; }
    __device__ __forceinline__ Place place_in(const StripChunk& chunk) const {
        Place at;
        at.batch = chunk.batch;
        at.lane = lane;
        at.log2_rows = p.log2_lane_rows;
        at.pack = lane & ((1 << p.log2_lane_rows) - 1);
        at.segment = lane >> p.log2_lane_rows;
        const int warp_steps = L * at.segments(), before = part() * warp_steps;
        at.warp_row = static_cast<int64_t>(chunk.group) * carries.rows;
        at.warp_t0 = chunk.t0 + before;
        at.warp_rows = static_cast<int>(min(p.rows - at.warp_row, int64_t{carries.rows}));
        at.warp_steps = max(min(chunk.steps - before, warp_steps), 0);
        at.row = at.warp_row + at.pack * V;
        at.t0 = at.warp_t0 + at.segment * L;
        at.rows = max(min(at.warp_rows - at.pack * V, V), 0);
        at.steps = at.rows == 0 ? 0 : max(min(at.warp_steps - at.segment * L, L), 0);
        return at;
    }
    __device__ __forceinline__ char* gate_of(uint32_t k) const {
        return ring.stage(k) + part() * 32 * Config::lane_bytes;
    }
    __device__ __forceinline__ char* source_of(uint32_t k) const { return gate_of(k) + Config::tile_bytes; }
    __device__ __forceinline__ char* states_of(uint32_t k) const { return gate_of(k) + 2 * Config::tile_bytes; }

    // Reads the lane's steps from shared memory; steps that do not exist become zeros.
    static __device__ __forceinline__ void read(char* tile, const Place& at, Tile& to) {
        StageTile<X, Shape>::load(tile, at, to);
        if (at.steps >= L) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (i >= at.steps)
#pragma unroll
                for (int v = 0; v < V; ++v) to.set(i, v, Wide{});
    }

    // Summarises the warp's part of chunk k. `through` becomes the composition of the lanes before this one.
    __device__ __forceinline__ void summarize(uint32_t k, Map (&through)[V]) const {
        const Place at = place_in(carries.template chunk_of<Down>(k));
        const Events<L> none;
        const Walker walk{p, at, none};
        ring.await_chunk(k);
        Tile gate, source;
        read(gate_of(k), at, gate);
        read(source_of(k), at, source);
        Walker::complete(p, at, gate);
        walk.template summarize<Kind::plain>(gate, source, through);
        const Segments<Ty, Shape, Down> segments{at};
        typename Carries::Total* const totals = carries.totals_of(k, warp) + at.pack * V;
        for (int distance = 1; distance < segments.count(); distance *= 2)
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Map earlier = Ty::shuffle_map(through[v], segments.lane_before(distance));
                if (segments.mine() >= distance) through[v] = Ty::compose(earlier, through[v]);
            }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (segments.is_last()) totals[v] = {through[v].x, through[v].a};
            const Map before = Ty::shuffle_map(through[v], segments.lane_before(1));
            through[v] = segments.mine() > 0 ? before : Ty::identity();
        }
        carries.signal(carries.slot(k).totals_barrier);
    }

    __device__ __forceinline__ void backward(uint32_t k, const Place& at, const Walker& walk, Tile& gate, Tile& source,
                                             Wide (&carry)[V]) const {
        Tile states{};
        if (gate_wanted()) read(states_of(k), at, states);
        const int64_t first = (Down ? 0 : p.time - 1) - at.t0;
        const bool holds = first >= 0 && first < at.steps;
        Wide edge[V] = {};
        if (holds && p.state_in != nullptr)
#pragma unroll
            for (int v = 0; v < V; ++v) edge[v] = static_cast<const Wide*>(p.state_in)[at.batch * p.rows + at.row + v];
        walk.template backward<Kind::plain>(
            gate, source, carry, carry, StripStatesBefore<X, Shape>{states, holds ? static_cast<int>(first) : -1, edge},
            [&](int i, const Wide(&values)[V]) { gate.set(i, values); });
    }

    // Replaces the carries into the lane's steps of chunk k that are not finite, by walks in order.
    __device__ __forceinline__ void carry_again(uint32_t k, const Place& at, Wide (&carry)[V]) const {
        uint32_t turn;
        carries.strip_of(k, turn);
        const int64_t from = steps_of_chunk<Down>(p, turn, carries.steps).first();
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < at.rows && !is_finite(carry[v]))
                carry[v] = carry_in_order<Types<X, X>, Down, Backward>(
                    p, at.batch, at.row + v, from, Down ? at.t0 + L - 1 : at.t0,
                    carries.slot(k).carries[at.pack * V + v], carry[v]);
    }

    __device__ __forceinline__ void walk(uint32_t k, const Map (&through)[V]) const {
        const StripChunk chunk = carries.template chunk_of<Down>(k);
        const Place at = place_in(chunk);
        const Events<L> none;
        const Walker walk{p, at, none};
        Tile gate, source;
        const auto read_both = [&] {
            read(gate_of(k), at, gate);
            read(source_of(k), at, source);
        };
        read_both();
        typename Carries::Slot& shared = carries.slot(k);
        carries.wait(shared.carries_barrier, k);
        Wide carry[V];
        bool finite = true;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            carry[v] = Ty::apply(through[v], shared.carries[at.pack * V + v]);
            finite = finite && is_finite(carry[v]);
        }
        if (!finite) [[unlikely]] {
            carry_again(k, at, carry);
            read_both();  // so that the tile need not be kept in registers meanwhile
        }
        Walker::complete(p, at, gate);
        if constexpr (Backward)
            backward(k, at, walk, gate, source, carry);
        else
            walk.template forward<Kind::plain>(gate, source, carry);
        StageTile<X, Shape>::store(source, at, source_of(k));
        if (gate_wanted()) StageTile<X, Shape>::store(gate, at, gate_of(k));
        ring.give_back(k, lane);
        const bool ends = chunk.last && warp + 1 == Config::warps && Segments<Ty, Shape, Down>{at}.is_last();
        if (p.edge_out == nullptr || !ends || at.rows == 0) return;
#pragma unroll
        for (int v = 0; v < V; ++v) static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry[v];
    }

    // The loop of a warp over its block's chunks. All blocks synchronise once after each has summarised its first
    // chunk.
    __device__ __forceinline__ void run(typename Carries::Grid::arrival_token token) const {
        const uint32_t count = carries.count();
        const int pack = lane & ((1 << p.log2_lane_rows) - 1);
        Map through[ahead + 1][V];
        for (uint32_t k = 0; k < count + ahead; ++k) {
#pragma unroll
            for (int i = 0; i < ahead; ++i)
#pragma unroll
                for (int v = 0; v < V; ++v) through[i][v] = through[i + 1][v];
            if (k < count) summarize(k, through[ahead]);
            if (k == 0) carries.meet(token);
            if (k > 0 && k <= count) {
                carries.wait(carries.slot(k - 1).published_barrier, k - 1);
#pragma unroll
                for (int v = 0; v < V; ++v) carries.add_totals_before(k - 1, warp, pack * V + v, through[ahead - 1][v]);
            }
            if (k >= ahead) walk(k - ahead, through[0]);
        }
    }
};

template <typename X, bool Down, bool Backward>
__global__ void __launch_bounds__(StripConfig<X, Backward>::threads, 1)
    linear_few_long_rows_channels(const __grid_constant__ LinearParams p, const __grid_constant__ FewLongStripsParams w,
                                  const __grid_constant__ TensorMaps maps) {
// Older devices have no bulk copy engine; the host does not launch this kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    using Config = StripConfig<X, Backward>;
    __shared__ typename Config::Carries::Shared shared;
    __shared__ typename Config::Ring::Shared barriers;
    extern __shared__ __align__(128) char stages[];
    const int lane = static_cast<int>(threadIdx.x) & 31, warp = static_cast<int>(threadIdx.x) / 32;
    const int rows = Config::Shape::V << p.log2_lane_rows;
    const auto carries =
        Config::Carries::here(p, w, shared, rows, Config::warps * (Config::Shape::L * 32 >> p.log2_lane_rows));
    const typename Config::Ring ring{barriers, stages, Config::stage_bytes};
    const StripCopies<Config, Down> copies{p, w, maps, rows};
    const auto load = [&](uint32_t k, uint32_t to, uint32_t barrier) {
        copies.load(carries.template chunk_of<Down>(k), to, barrier);
    };
    const bool loads = threadIdx.x == 32 * Config::warps, stores = threadIdx.x == 32 * (Config::warps + 1);
    const uint32_t count = carries.count(), begun = min(count, uint32_t{Config::flight});
    if (loads) {
        ring.make_barriers();
        carries.make_barriers();
        for (uint32_t k = 0; k < begun; ++k)
            load(k, ptx::shared_address(ring.stage(k)), ptx::shared_address(&barriers.filled[k]));
    }
    const auto token = carries.clear_and_arrive();
    if (warp < Config::warps) return StripWarp<X, Down, Backward>{p, carries, ring, lane, warp}.run(token);
    carries.meet(token);
    if (loads)
        ring.fill(begun, count, load);
    else if (stores)
        ring.empty(count, [&](uint32_t k, uint32_t from) { copies.store(carries.template chunk_of<Down>(k), from); });
    else if (warp >= Config::warps + 2)
        carries.template find<Down, Backward>(warp - Config::warps - 2);
#endif
}

}  // namespace flashscan::cuda
