// SPDX-License-Identifier: Apache-2.0
// The kernel "relay": the linear recurrence in 16 bits with channels innermost. A block walks its rows from the first
// step to the last. Its warps take the stages of time round-robin, from ring buffers in shared memory that the bulk
// copy engine (TMA) fills, and each passes the carry to the warp of the next stage through shared memory.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A stage maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0.
//
// Ownership  A block owns rows from the first step to the last. Its warps stand in 2^log2_warp_rows columns of rows;
//            the warps of a column take its stages round-robin, each from a ring buffer of its own in shared memory. A
//            lane holds L steps of V rows of a stage in registers; the lanes of a row hold segments that follow each
//            other in time.
// Passes     1. A warp takes a stage from its ring and summarises it; the lanes' summaries are composed in order.
//            2. It takes the carry c from the warp before, hands A c + X to the warp after, walks its steps with c and
//               gives the stage back, which the copy engine stores and fills with a later one.
// Bytes      Every element is read once and written once, nothing else.
// Order      The shape fixes it. The carry passes from warp to warp through shared memory, some 30 instructions a stage
//            that nothing overlaps: all that they need is worked out before the carry is there.
// Sync       Each warp has a slot for the carries that it receives, with an mbarrier. All lanes of the warp before
//            arrive there once they have written the slot and have read their own, which may be overwritten from then
//            on. Each stage of a ring has an mbarrier that counts the bytes of its loads.
// Limits     Data of 16 bits, a gate for each element, nothing packed; compute capability 9.0 and newer. It is chosen
//            where there are rows for most multiprocessors. Gates are computed once for both passes, because the
//            instructions of a stage must take less time than its bytes.
// Why        Loads never stop: some 48 KB a multiprocessor are always on their way, whatever its warps do, and carries
//            never leave it. An H200 reaches 92 to 94 % of the stream in 16 bits, columns.cuh 89 to 92 % and
//            chunked.cuh 80 %; with wider elements columns are faster. See bench/results/tried_linear.md for other
//            amounts of bytes under way, widths of strips and numbers of warps.
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/bulk_copy.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/exchange.cuh"
#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/tile/copies.cuh"
#include "cuda/device/tile/stage_tile.cuh"
#include "cuda/linear/relay_params.h"
#include "cuda/linear/walk.cuh"
#include "cuda/loader/tensor_map.h"

namespace flashscan::cuda {

template <typename Ty, bool Backward>
struct RelayConfig {
    using X = typename Ty::X;
    using G = typename Ty::G;
    static constexpr int lane_bytes = 64;  // bytes of each tensor that a lane has of a stage
    using Shape = TileShape<X, G, Access::channel_packs, Backward, lane_bytes*(Backward ? 3 : 2)>;
    static constexpr int gate_bytes = 32 * Shape::L * Shape::V * static_cast<int>(sizeof(G));
    static constexpr int data_bytes = 32 * Shape::L * Shape::V * static_cast<int>(sizeof(X));
    static constexpr int stage_bytes = gate_bytes + data_bytes * (Backward ? 2 : 1);
    static constexpr int most_warps = 8;
    // Beside its ring a warp has a slot of carries, an mbarrier for each stage of the ring, and one for the slot.
    static constexpr int barriers = relay_most_stages + 1;
    static constexpr int carry_bytes = Shape::max_rows * static_cast<int>(sizeof(typename Ty::Wide));
    static constexpr int warp_bytes = carry_bytes + barriers * 8;
};

template <typename Ty, bool Down, bool Backward>
struct RelayWarp {
    using Config = RelayConfig<Ty, Backward>;
    using Shape = typename Config::Shape;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    using Before = StatesBefore<X, Shape, Down>;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    static constexpr int L = Shape::L, V = Shape::V;
    // Bytes of RESET that a lane loads for a stage. A stage has up to 2 L steps, as a row has at most two segments in a
    // warp, and lane i loads those of steps i and i + 32.
    static constexpr int reset_turns = 2 * L > 32 ? 2 : 1;

    const LinearParams& p;
    const RelayParams& r;
    int lane, place, column_warps;  // `place`: the warp's number among the column_warps warps of its column
    Place origin;                   // the lane's place in the stage that begins at step 0
    int row0;                       // the warp's first row
    int stages;                     // how many stages time is divided into
    char* ring;                     // the warp's ring buffer
    uint32_t barriers;              // the warp's mbarriers: one for each stage of the ring, then that of its carry slot
    // The lane's rows in the warp's own carry slot and in that of the next warp, and the mbarriers of both slots. They
    // are computed here because nothing overlaps the instructions that pass the carry.
    Wide *taken, *handed;
    uint32_t taken_barrier, handed_barrier;

    static __device__ __forceinline__ RelayWarp here(const LinearParams& p, const RelayParams& r) {
        extern __shared__ __align__(1024) char relay_memory[];
        const int thread = ptx::thread_index(), lane = thread & 31, warp = thread / 32;
        const int warps = static_cast<int>(blockDim.x) / 32;
        const uint32_t batch = p.batches > 1 ? quotient(blockIdx.x, p.by_row_groups) : 0;
        const int group = static_cast<int>(blockIdx.x - batch * static_cast<uint32_t>(p.row_groups));
        const int column = warp & ((1 << p.log2_warp_rows) - 1);
        const int place = warp >> p.log2_warp_rows, column_warps = warps >> p.log2_warp_rows;
        const int next = place + 1 == column_warps ? 0 : place + 1;
        const int stage_steps = L * (32 >> p.log2_lane_rows);
        const int row0 = ((group << p.log2_warp_rows) + column) * (V << p.log2_lane_rows);
        const Place origin = place_of<Shape>(batch, row0, 0, p.rows, p.time, lane, p.log2_lane_rows);
        char* const carries = relay_memory + warps * r.ring * Config::stage_bytes;
        const uint32_t barriers = ptx::shared_address(carries + warps * Config::carry_bytes);
        // The carry slot, and the mbarriers, of the warp at a place of the column.
        const auto carries_of = [&](int to) {
            const int index = (to << p.log2_warp_rows) + column;
            return reinterpret_cast<Wide*>(carries + index * Config::carry_bytes) + origin.pack * V;
        };
        const auto barriers_of = [&](int to) {
            return barriers + ((to << p.log2_warp_rows) + column) * Config::barriers * 8;
        };
        return {p,
                r,
                lane,
                place,
                column_warps,
                origin,
                row0,
                static_cast<int>((p.time + stage_steps - 1) / stage_steps),
                relay_memory + warp * r.ring * Config::stage_bytes,
                barriers_of(place),
                carries_of(place),
                carries_of(next),
                barriers_of(place) + 8 * relay_most_stages,
                barriers_of(next) + 8 * relay_most_stages};
    }

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    // The number of the warp's k-th stage among all stages of the column.
    __device__ __forceinline__ int turn(int k) const { return k * column_warps + place; }
    // The first step, in the order of memory, of stage n.
    __device__ __forceinline__ int time_of(int n) const {
        return (Down ? stages - 1 - n : n) * (L * (32 >> p.log2_lane_rows));
    }
    // The lane's place in stage n. It copies from `origin` what is the same in all stages.
    __device__ __forceinline__ Place place_at(int n) const {
        Place at = origin;
        const int t0 = time_of(n);
        at.warp_t0 = t0;
        at.t0 = t0 + at.segment * L;
        at.warp_steps = min(static_cast<int>(p.time) - t0, L * at.segments());
        at.steps = at.rows == 0 ? 0 : max(min(at.warp_steps - at.segment * L, L), 0);
        return at;
    }
    __device__ __forceinline__ char* stage(int slot) const { return ring + slot * Config::stage_bytes; }
    static __device__ __forceinline__ char* source_of(char* stage) { return stage + Config::gate_bytes; }
    static __device__ __forceinline__ char* states_of(char* stage) {
        return stage + Config::gate_bytes + Config::data_bytes;
    }

    __device__ __forceinline__ void make_barriers() const {
        if (lane == 0) {
            for (int i = 0; i < r.ring; ++i) ptx::make_byte_barrier(barriers + 8 * i);
            ptx::make_barrier(taken_barrier, 32);
        }
        __syncthreads();
    }

    // Starts loading the warp's k-th stage into a slot of its ring.
    __device__ __forceinline__ void load(int k, int slot) const {
        const int n = turn(k);
        if (n >= stages || lane != 0) return;
        constexpr int shift = Down ? -1 : 1;
        const uint32_t to = ptx::shared_address(stage(slot)), barrier = barriers + 8 * slot;
        const auto box = [&](int offset, const CUtensorMap& map, int parts, int t) {
            ptx::load_box(to + offset, &map, row0 * parts, t, static_cast<int>(origin.batch), barrier);
        };
        const int t = time_of(n);
        ptx::expect_bytes(barrier, Config::stage_bytes - (Backward && !gate_wanted() ? Config::data_bytes : 0));
        box(0, r.gate, map_parts(sizeof(G)), t);
        box(Config::gate_bytes, r.source, map_parts(sizeof(X)), t);
        if (gate_wanted()) box(Config::gate_bytes + Config::data_bytes, r.states, map_parts(sizeof(X)), t + shift);
    }
    // Starts storing the results that pass 2 left in a slot of the ring.
    __device__ __forceinline__ void store(int n, int slot) const {
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane != 0) return;
        const uint32_t from = ptx::shared_address(stage(slot));
        const auto box = [&](int offset, const CUtensorMap& map, int parts) {
            ptx::store_box(from + offset, &map, row0 * parts, time_of(n), static_cast<int>(origin.batch));
        };
        if (p.result.data != nullptr) box(Config::gate_bytes, r.result, map_parts(sizeof(X)));
        if (gate_wanted()) box(0, r.grad_gate, map_parts(sizeof(G)));
        ptx::end_store_group();
    }

    __device__ __forceinline__ Segments<Ty, Shape, Down> segments() const { return {origin}; }

    // Puts the carry into stage 0 into the slot of the warp that takes stage 0.
    __device__ __forceinline__ void begin() const {
        const Wide* const edge = static_cast<const Wide*>(p.edge_in);
        const Place at = place_at(0);
        if (place == 0 && segments().mine() == 0)
#pragma unroll
            for (int v = 0; v < V; ++v)
                taken[v] = edge != nullptr && v < at.rows ? edge[at.batch * p.rows + at.row + v] : Wide{};
        __syncwarp();
    }

    // Waits for the carry into the warp's k-th stage, passes the carry after the stage to the next warp, and sets
    // `carry` to that into the lane's own steps. A warp that is alone in its column needs no mbarrier.
    __device__ __forceinline__ void pass_carry(int k, const Map (&through)[V], Wide (&carry)[V]) const {
        const int n = turn(k);
        const bool hands = n + 1 < stages, last_segment = segments().is_last();
        const bool alone = column_warps == 1;
        // `begin` put the carry into stage 0 there without arriving, so the first warp's phases are one behind.
        if (n > 0 && !alone) ptx::wait_for_phase(taken_barrier, place == 0 ? k - 1 & 1 : k & 1);
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = taken[v];
        if (alone) __syncwarp();
        if (hands && last_segment)
#pragma unroll
            for (int v = 0; v < V; ++v) handed[v] = Ty::apply(through[v], carry[v]);
        if (alone)
            __syncwarp();
        else if (hands)
            ptx::arrive(handed_barrier);
        if (p.log2_lane_rows == 5) return;
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = segments().enter(through[v], carry[v]);
    }

    // The bytes of RESET for a stage, loaded one of the warp's stages ahead and prefetched several ahead: a stage takes
    // less time than the latency of memory under load.
    struct Ahead {
        uint8_t reset[reset_turns];  // those of the stage's steps lane, lane + 32
    };
    __device__ __forceinline__ Ahead look_ahead(int k) const {
        Ahead ahead{};
        if (p.reset == nullptr || turn(k) >= stages) return ahead;
        const uint8_t* const reset = p.reset + origin.batch * p.time;
        const int t0 = time_of(turn(k)) + lane;
#pragma unroll
        for (int i = 0; i < reset_turns; ++i)
            if (t0 + 32 * i < p.time) ahead.reset[i] = reset[t0 + 32 * i];
        constexpr int fetched = 4;
        if (lane == 0 && turn(k + fetched) < stages) ptx::prefetch(reset + time_of(turn(k + fetched)));
        return ahead;
    }
    __device__ __forceinline__ Events<L> events_of_stage(const Ahead& ahead, const Place& at) const {
        using Mask = typename Events<L>::Mask;
        Events<L> events;
        uint64_t bits = 0;
        if (p.reset != nullptr)
#pragma unroll
            for (int i = 0; i < reset_turns; ++i)
                bits |= static_cast<uint64_t>(__ballot_sync(0xffffffffU, ahead.reset[i] != 0)) << (32 * i);
        events.reset = static_cast<Mask>(bits >> (at.segment * L)) & ~Mask(0) >> (8 * sizeof(Mask) - L);
        if (row_has_end<Shape, Backward>(p)) events.end = first_step_of_row<L, Down>(p, at);
        return events;
    }

    // Both passes of the warp's k-th stage, which is in `slot`; `last` is the slot of its stage before, which is filled
    // again meanwhile.
    __device__ __forceinline__ void walk(int k, int slot, int last, uint32_t parity, const Ahead& ahead) const {
        const int n = turn(k);
        const Place at = place_at(n);
        const Events<L> events = events_of_stage(ahead, at);
        const bool eventful = may_have_events<Shape, Backward>(p) && events.any();
        const Walker walk{p, at, events};
        ptx::wait_for_phase(barriers + 8 * slot, parity);
        char* const here = stage(slot);
        Steps<G, Shape> gate;
        Steps<X, Shape> source, states{};
        StageTile<G, Shape>::load(here, at, gate);
        StageTile<X, Shape>::load(source_of(here), at, source);
        if (gate_wanted()) StageTile<X, Shape>::load(states_of(here), at, states);
        walk.complete(gate);
        GateValues<Ty, Shape> values{gate};
        walk.evaluate(values);
        Map through[V];
        if (eventful)
            walk.template summarize<Kind::cuts>(values, source, through);
        else
            walk.template summarize<Kind::plain>(values, source, through);
        // By now the stores of the stage before have read its slot. The next load starts before the wait for the carry.
        if (lane == 0) ptx::wait_for_stores_to_read<0>();
        load(k + r.ring - 1, last);
#pragma unroll
        for (int v = 0; v < V; ++v) segments().scan(through[v]);
        Wide carry[V], first[V];
        pass_carry(k, through, carry);
#pragma unroll
        for (int v = 0; v < V; ++v) first[v] = Backward ? walk.before_row(v) : Wide{};
        if constexpr (Backward)
            with_kind<Ty>(p, eventful, [&](auto kind) {
                walk.template backward<decltype(kind)::value>(
                    values, source, carry, first, Before{at, states, {}},
                    [&](int i, const GateWide(&gradients)[V]) { gate.set(i, gradients); });
            });
        else if (eventful)
            walk.template forward<Kind::cuts>(values, source, carry);
        else
            walk.template forward<Kind::plain>(values, source, carry);
        StageTile<X, Shape>::store(source, at, source_of(here));
        if (gate_wanted()) StageTile<G, Shape>::store(gate, at, here);
        if (p.edge_out == nullptr || n < stages - 1 || !segments().is_last()) return;
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < at.rows) static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry[v];
    }

    __device__ __forceinline__ void run() const {
        make_barriers();
        for (int k = 0; k < r.ring - 1; ++k) load(k, k);
        begin();
        Ahead ahead = look_ahead(0);
        int slot = 0, last = r.ring - 1;
        uint32_t parity = 0;
        for (int k = 0; turn(k) < stages; ++k) {
            const Ahead after = look_ahead(k + 1);
            walk(k, slot, last, parity, ahead);
            store(turn(k), slot);
            ahead = after;
            last = slot;
            if (++slot == r.ring) {
                slot = 0;
                parity ^= 1;
            }
        }
        if (lane == 0) ptx::wait_for_stores_to_read<0>();
    }
};

template <typename Ty, bool Down, bool Backward>
__global__ void __launch_bounds__(32 * RelayConfig<Ty, Backward>::most_warps)
    linear_relay(const __grid_constant__ LinearParams p, const __grid_constant__ RelayParams r) {
// Older devices have no bulk copy engine; the host does not launch this kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    RelayWarp<Ty, Down, Backward>::here(p, r).run();
#endif
}

}  // namespace flashscan::cuda
