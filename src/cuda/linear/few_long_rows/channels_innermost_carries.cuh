// SPDX-License-Identifier: Apache-2.0
// How the chunks of channels_innermost.cuh find the carries that enter them: a scan over the chunks of each wave by
// specialised warps.
//
// The blocks are divided into teams, each of which has strips of its own. Wave k of a team is the chunks
// [k n, (k + 1) n) for its n blocks, one chunk for each block. Five warps of each block find carries:
//
//   publisher  composes the totals of its block's walking warps into the chunk's summary of each row and sends that to
//              the row's reducers
//   reducers   of a team's block r, for row r of the chunks: scan a wave's summaries, in a tree fixed by n, apply them
//              to the carry that enters the wave, and send every block its carry. Where a carry is not finite, they go
//              through the wave in order, and walk chunks whose summaries overflowed (in_order.cuh)
//   receivers  wait for the carries of the block's rows and put them into shared memory
//
// So each summary is read once and each carry is written once, by as many warps as chunks have rows. A block has two
// reducers and two receivers, which take every other wave, because a round trip to memory takes as long as a wave. At
// the first chunk of a strip the summary includes the carry that the strip starts from and is marked as cut, so
// that nothing passes from one strip to the next. Blocks exchange tagged values (device/exchange/tagged_values.cuh),
// whose tag is the number of the wave and whether the summary is cut. The blocks first set all tags to ones, which is
// no wave's tag, and synchronise over the grid once, while their first loads are under way. A slot is used again
// `slots` waves later. That is safe: a block that publishes then has walked its chunk of the wave that the slot held,
// and the carries of that wave were computed after the slot had been read.
#pragma once

#include <cooperative_groups.h>

#include <utility>

#include "cuda/linear/few_long_rows/channels_innermost_copies.cuh"
#include "cuda/linear/few_long_rows/time_innermost_carries.cuh"

namespace flashscan::cuda {

// The work of the five warps of a block that find carries, and their shared memory. `Warps` is the number of walking
// warps, `Ahead` the number of chunks that a block summarises before it walks one, `Rows` the most rows of a chunk.
template <typename Ty, int Warps, int Ahead, int Rows>
struct StripCarries {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    using Total = Record<Ty>;
    static constexpr int slots = Ahead + 1;
    static constexpr int helpers = 5;  // warps that find carries
    static constexpr int most_of_lane = wave_most_blocks / 32, rows_of_lane = (Rows + 31) / 32;

    struct Slot {
        // mbarriers: the warps' totals are stored; the publisher has replaced them by their exclusive scan; carries are
        // stored.
        uint64_t totals_barrier, published_barrier, carries_barrier;
        Wide carries[Rows];  // into the chunk
    };
    struct Shared {
        Slot slots[StripCarries::slots];
        // [parity of the wave][warps in time][rows]: each warp's own summary, which the publisher then replaces by the
        // composition of the summaries of the warps before it.
        Total totals[2][Warps * Rows];
        uint64_t start_barriers[2];
        Wide starts[2];  // the carry that a wave of the reducers' row starts from, by the parity of the wave
    };

    const LinearParams& p;
    const FewLongStripsParams& w;
    Shared& shared;
    int rows, steps;               // rows and steps of a chunk
    uint32_t team, index, blocks;  // the block's team, its number in the team, and how many blocks a team has

    static __device__ __forceinline__ StripCarries here(const LinearParams& p, const FewLongStripsParams& w,
                                                        Shared& shared, int rows, int steps) {
        const uint32_t index = blockIdx.x / w.teams;
        return {p, w, shared, rows, steps, blockIdx.x - index * w.teams, index, gridDim.x / w.teams};
    }

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
    __device__ __forceinline__ uint32_t waves() const { return (w.chunks + blocks - 1) / blocks; }
    // How many chunks this block has.
    __device__ __forceinline__ uint32_t count() const {
        return w.chunks > index ? (w.chunks - 1 - index) / blocks + 1 : 0;
    }
    // The strip of the block's chunk of a wave; `turn` becomes the chunk's number in the strip.
    __device__ __forceinline__ uint32_t strip_of(uint32_t wave, uint32_t& turn) const {
        const uint32_t n = wave * blocks + index, strip = quotient(n, w.by_chunks);
        turn = n - strip * static_cast<uint32_t>(p.chunks);
        return strip * w.teams + team;
    }
    __device__ __forceinline__ uint32_t batch_of(uint32_t strip, uint32_t& group) const {
        const uint32_t batch = p.batches > 1 ? quotient(strip, p.by_row_groups) : 0;
        group = strip - batch * static_cast<uint32_t>(p.row_groups);
        return batch;
    }
    // The block's chunk of a wave.
    template <bool Down>
    __device__ __forceinline__ StripChunk chunk_of(uint32_t wave) const {
        StripChunk chunk;
        uint32_t turn;
        chunk.batch = batch_of(strip_of(wave, turn), chunk.group);
        const ChunkSteps<Down> of = steps_of_chunk<Down>(p, turn, steps);
        chunk.t0 = of.begin;
        chunk.steps = static_cast<int>(of.end - of.begin);
        chunk.last = turn + 1 == p.chunks;
        return chunk;
    }
    __device__ __forceinline__ Slot& slot(uint32_t wave) const { return shared.slots[wave % slots]; }
    __device__ __forceinline__ Total* totals_of(uint32_t wave, int warp) const {
        return shared.totals[wave & 1] + warp * rows;
    }
    // Blocks exchange summaries and carries at these places: the summaries of a row lie together, and so do the carries
    // of a block.
    __device__ __forceinline__ int64_t record_place(uint32_t wave, int row, uint32_t block) const {
        return static_cast<int64_t>((team * slots + wave % slots) * static_cast<uint32_t>(rows) + row) * blocks + block;
    }
    __device__ __forceinline__ int64_t carry_place(uint32_t wave, uint32_t block, int row) const {
        return static_cast<int64_t>((team * slots + wave % slots) * blocks + block) * rows + row;
    }

    __device__ __forceinline__ void make_barriers() const {
        for (uint32_t i = 0; i < slots; ++i) {
            ptx::make_barrier(ptx::shared_address(&slot(i).totals_barrier), 32 * Warps);
            ptx::make_barrier(ptx::shared_address(&slot(i).published_barrier), 32);
            ptx::make_barrier(ptx::shared_address(&slot(i).carries_barrier), 32);
        }
        for (int i = 0; i < 2; ++i) ptx::make_barrier(ptx::shared_address(&shared.start_barriers[i]), 32);
    }
    // All threads of all blocks call these two: the first clears the exchanged memory and arrives at the barrier of the
    // grid; nothing is published before the second, which waits there, returns.
    using Grid = cooperative_groups::grid_group;
    __device__ __forceinline__ typename Grid::arrival_token clear_and_arrive() const {
        const int64_t words =
            static_cast<int64_t>(slots) * gridDim.x * rows * (Words<Total>::count + Words<Wide>::count);
        for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words;
             i += int64_t{gridDim.x} * blockDim.x)
            static_cast<ptx::TaggedWord*>(p.records)[i] = {~uint64_t{0}, ~uint64_t{0}};
        return cooperative_groups::this_grid().barrier_arrive();
    }
    static __device__ __forceinline__ void meet(typename Grid::arrival_token token) {
        cooperative_groups::this_grid().barrier_wait(std::move(token));
    }
    // `signal` makes what the thread wrote to shared memory visible to the threads that `wait` for the wave.
    static __device__ __forceinline__ void signal(uint64_t& barrier) { ptx::arrive(ptx::shared_address(&barrier)); }
    static __device__ __forceinline__ void wait(uint64_t& barrier, uint32_t wave) {
        ptx::wait_for_phase(ptx::shared_address(&barrier), wave / slots & 1);
    }

    // The carry that a row of a strip starts from.
    __device__ __forceinline__ Wide first_of(uint32_t strip, int row) const {
        uint32_t group;
        const int64_t batch = batch_of(strip, group), place = static_cast<int64_t>(group) * rows + row;
        if (p.edge_in == nullptr || place >= p.rows) return Wide{};
        return static_cast<const Wide*>(p.edge_in)[batch * p.rows + place];
    }

    // Replaces the warps' totals of a row by their exclusive scan and returns the summary of the chunk.
    __device__ __forceinline__ Map compose_totals(uint32_t wave, int row) const {
        Total totals[Warps];
#pragma unroll
        for (int i = 0; i < Warps; ++i) totals[i] = totals_of(wave, i)[row];
        Map before = Ty::identity();
#pragma unroll
        for (int i = 0; i < Warps; ++i) {
            totals_of(wave, i)[row] = {before.x, before.a};
            before = after(before, {totals[i].a, totals[i].x, false}, true);
        }
        return before;
    }
    // Composes the total of the warps before `warp` with `m`. Walking warps call it once for each chunk, before they
    // write their totals of chunk k + 2 to the same memory.
    __device__ __forceinline__ void add_totals_before(uint32_t k, int warp, int row, Map& m) const {
        const Total before = totals_of(k, warp)[row];
        m = Ty::compose({before.a, before.x, false}, m);
    }

    // The publisher: one warp of each block.
    __device__ __forceinline__ void publish() const {
        for (uint32_t k = 0; k < count(); ++k) {
            uint32_t turn;
            const uint32_t strip = strip_of(k, turn);
            wait(slot(k).totals_barrier, k);
#pragma unroll 1
            for (int row = lane(); row < rows; row += 32) {
                Map m = compose_totals(k, row);
                if (turn == 0) {
                    const Wide first = first_of(strip, row);
                    slot(k).carries[row] = first;
                    m = {m.a, Ty::apply(m, first), true};
                }
                send_value(p.records, record_place(k, row, index), Total{m.x, m.a}, uint64_t{k} << 1 | m.cut);
            }
            signal(slot(k).published_barrier);
        }
    }

    // A receiver, for the waves which, which + 2, ...
    __device__ __forceinline__ void receive(uint32_t which) const {
        const int mine = (rows - lane() + 31) / 32;
        for (uint32_t k = which; k < count(); k += 2) {
            uint32_t turn;
            strip_of(k, turn);
            wait(slot(k).published_barrier, k);
            Wide* const to = slot(k).carries + lane();
            await_values<Wide, rows_of_lane, 32>(p.carries, carry_place(k, index, lane()), mine, k,
                                                 [&](int i, Wide carry, bool) {
                                                     if (turn > 0) to[32 * i] = carry;
                                                 });
            signal(slot(k).carries_barrier);
        }
    }

    // Composes two maps if `late` follows, and returns `late` alone otherwise, without branches.
    static __device__ __forceinline__ Map after(const Map& early, const Map& late, bool follows) {
        const bool stops = !follows | late.cut | is_zero(early.x);
        const Wide x = multiply_add(late.a, early.x, late.x);
        const auto a = late.a * early.a;
        return {!follows | late.cut ? late.a : a, stops ? late.x : x,
                static_cast<bool>(late.cut | follows & early.cut)};
    }
    static __device__ __forceinline__ Wide carry_after(const Map& m, Wide carry) {
        const Wide x = multiply_add(m.a, carry, m.x);
        return m.cut | is_zero(carry) ? m.x : x;
    }
    // Waits for the carry that wave k starts from; give_start passes the carry that the next wave starts from to the
    // other reducer.
    __device__ __forceinline__ Wide await_start(uint32_t k) const {
        if (k == 0) return Wide{};
        ptx::wait_for_phase(ptx::shared_address(&shared.start_barriers[k & 1]), (k - 1) / 2 & 1);
        return shared.starts[k & 1];
    }
    __device__ __forceinline__ void give_start(uint32_t k, Wide start) const {
        if (lane() == 0) shared.starts[k & 1] = start;
        signal(shared.start_barriers[k & 1]);
    }

    // A reducer, for the waves which, which + 2, ... of a row; a lane composes Part neighbouring chunks of a wave.
    template <bool Down, bool Backward, int Part>
    __device__ __forceinline__ void reduce(int row, uint32_t which) const {
        const int first = Part * lane();
        for (uint32_t k = which; k < waves(); k += 2) {
            const int mine = static_cast<int>(min(blocks, w.chunks - k * blocks)) - first;
            Map maps[Part], through = Ty::identity();
#pragma unroll
            for (int i = 0; i < Part; ++i) maps[i] = Ty::identity();
            await_values<Total, Part>(p.records, record_place(k, row, static_cast<uint32_t>(first)), mine, k,
                                      [&](int i, const Total& r, bool cut) {
                                          maps[i] = {r.a, r.x, cut};
                                      });
#pragma unroll
            for (int i = 0; i < Part; ++i) through = after(through, maps[i], true);
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2)
                through = after(Ty::shuffle_map(through, lane() - distance & 31), through, lane() >= distance);
            const Map before = Ty::shuffle_map(through, lane() - 1 & 31);
            const Map total = Ty::shuffle_map(through, 31);
            const Wide start = await_start(k), next = carry_after(total, start);
            const bool owes_start = !is_finite(next);
            if (!owes_start) give_start(k + 1, next);
            const Wide entered = carry_after(before, start);
            Wide carry = lane() > 0 ? entered : start, carries[Part];
            bool finite = !owes_start;
#pragma unroll
            for (int i = 0; i < Part; ++i) {
                carries[i] = carry;
                finite = finite && (i >= mine || is_finite(carry));
                carry = carry_after(maps[i], carry);
            }
            if (!__all_sync(0xffffffffU, finite)) [[unlikely]] {
                const Wide right = pass_in_order<Ty>(maps, mine, start, carries, [&](int i, Wide into, Wide computed) {
                    return walk_chunk<Down, Backward>(k * blocks + static_cast<uint32_t>(first + i), row, into,
                                                      computed);
                });
                if (owes_start) give_start(k + 1, right);
            }
#pragma unroll
            for (int i = 0; i < Part; ++i)
                if (i < mine)
                    send_value(p.carries, carry_place(k, static_cast<uint32_t>(first + i), row), carries[i],
                               uint64_t{k} << 1);
        }
    }
    // The carry of a row that leaves the team's chunk n, which `carry` enters, by a walk in order.
    template <bool Down, bool Backward>
    __device__ __forceinline__ Wide walk_chunk(uint32_t n, int row, Wide carry, Wide computed) const {
        const uint32_t own = quotient(n, w.by_chunks), turn = n - own * static_cast<uint32_t>(p.chunks);
        const uint32_t strip = own * w.teams + team;
        uint32_t group;
        const uint32_t batch = batch_of(strip, group);
        const int64_t of_batch = static_cast<int64_t>(group) * rows + row;
        if (of_batch >= p.rows) return computed;
        const ChunkSteps<Down> chunk = steps_of_chunk<Down>(p, turn, steps);
        return carry_in_order<Ty, Down, Backward>(p, batch, of_batch, chunk.first(), chunk.beyond(),
                                                  turn == 0 ? first_of(strip, row) : carry, computed);
    }

    // A warp that finds carries runs this; `helper` is its number among these warps.
    template <bool Down, bool Backward>
    __device__ __forceinline__ void find(int helper) const {
        if (helper == 0) return publish();
        if (helper < 3) return receive(static_cast<uint32_t>(helper - 1));
        if (index >= static_cast<uint32_t>(rows)) return;
        const auto run = [&](auto part) {
            reduce<Down, Backward, decltype(part)::value>(static_cast<int>(index), static_cast<uint32_t>(helper - 3));
        };
        if (blocks <= 64)
            run(std::integral_constant<int, 2>{});
        else if (blocks <= 96)
            run(std::integral_constant<int, 3>{});
        else
            run(std::integral_constant<int, most_of_lane>{});
    }
};

}  // namespace flashscan::cuda
