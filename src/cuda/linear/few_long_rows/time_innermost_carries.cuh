// SPDX-License-Identifier: Apache-2.0
// How the chunks of time_innermost.cuh find the carry that enters them: a scan over the chunks of each wave by
// specialised warps.
//
// Wave k is the chunks [k n, (k + 1) n) for n blocks, one chunk for each block. Each block has three warps for the
// exchange:
//
//   publisher  composes the totals of its block's walking warps into the chunk's summary and sends it to the reducer
//   reducer    scans a wave's summaries, in a tree fixed by n, applies them to the carry that enters the wave, and
//              sends every block its carry; it works in the first block alone. Where a carry is not finite, it goes
//              through the wave in order, and walks chunks whose summaries overflowed (in_order.cuh)
//   receiver   waits for the block's carry and computes from it the carries of the block's walking warps
//
// At the first chunk of a row the summary includes the carry that the row starts from and is marked as cut, so that
// nothing passes from row to row. Blocks exchange tagged values (device/exchange/tagged_values.cuh), whose tag is the
// number of the wave and whether the summary is cut. The host sets all tags to ones, which is no wave's tag. A slot is
// used again `slots` waves later. That is safe: a block that publishes then has received a carry which was computed
// after the slot had been read.
#pragma once

#include "cuda/device/exchange/tagged_values.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/linear/few_long_rows/params.h"
#include "cuda/linear/in_order.cuh"
#include "cuda/linear/record.cuh"

namespace flashscan::cuda {

// The steps [begin, end) of a chunk. It is walked from step first() to step beyond(), which is not its own.
template <bool Down>
struct ChunkSteps {
    int64_t begin, end;

    __device__ __forceinline__ int64_t first() const { return Down ? end - 1 : begin; }
    __device__ __forceinline__ int64_t beyond() const { return Down ? begin - 1 : end; }
};
// The steps of chunk number `turn` of a row whose chunks have `steps` steps.
template <bool Down>
__device__ __forceinline__ ChunkSteps<Down> steps_of_chunk(const LinearParams& p, uint32_t turn, int steps) {
    const int64_t begin = (Down ? p.chunks - 1 - turn : turn) * steps;
    return {begin, min(begin + steps, p.time)};
}

// Passes a carry through the chunks of a wave one after another, where the scan over them met numbers that are not
// finite. A lane has the maps of `mine` neighbouring chunks. Sets `carries` to the carries that enter them and returns
// the carry that leaves the last chunk. walk(i, carry, next) returns the right carry after the lane's chunk i, which
// `carry` enters, in place of `next`.
template <typename Ty, int Part, typename Walk>
__device__ __forceinline__ typename Ty::Wide pass_in_order(const typename Ty::Map (&maps)[Part], int mine,
                                                           typename Ty::Wide carry, typename Ty::Wide (&carries)[Part],
                                                           Walk&& walk) {
#pragma unroll 1
    for (int turn = 0; turn < 32; ++turn) {
        if (turn == static_cast<int>(threadIdx.x & 31)) {
#pragma unroll
            for (int i = 0; i < Part; ++i) {
                if (i >= mine) continue;
                carries[i] = carry;
                const typename Ty::Wide next = Ty::apply(maps[i], carry);
                carry = is_finite(next) ? next : walk(i, carry, next);
            }
        }
        __syncwarp();
        carry = shuffle(carry, turn);
    }
    return carry;
}

// How the three warps of a block that do not walk find carries, and the shared memory through which they exchange them
// with the `Warps` walking warps. A block summarises up to Ahead chunks before it walks one.
template <typename Ty, int Warps, int Ahead>
struct RowCarries {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    // A block publishes at most Ahead + 1 chunks beyond the last one that it walked, and so do the others, which may be
    // as many waves behind or ahead of it: Ahead + 1 each way, and the wave itself.
    static constexpr int slots = 2 * Ahead + 3;
    static constexpr int most_of_lane = wave_most_blocks / 32;

    struct Slot {
        // mbarriers: the warps' totals are stored; the chunk's summary is published, and `first` stored; carries are
        // stored.
        uint64_t totals_barrier, published_barrier, carries_barrier;
        Record<Ty> totals[Warps];  // summaries of the walking warps
        Wide carries[Warps];       // into the walking warps
        Wide first;                // the carry that the row starts from, where the chunk is its first
    };
    struct Shared {
        Slot slots[RowCarries::slots];
    };

    const LinearParams& p;
    const FewLongRowsParams& w;
    Shared& shared;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
    __device__ __forceinline__ uint32_t waves() const { return (w.chunks + gridDim.x - 1) / gridDim.x; }
    // How many chunks this block has.
    __device__ __forceinline__ uint32_t count() const {
        return w.chunks > blockIdx.x ? (w.chunks - 1 - blockIdx.x) / gridDim.x + 1 : 0;
    }
    // The row of the block's chunk of a wave; `turn` becomes the chunk's number in the row.
    __device__ __forceinline__ uint32_t row_of(uint32_t wave, uint32_t& turn) const {
        const uint32_t n = wave * gridDim.x + blockIdx.x, row = quotient(n, w.by_chunks);
        turn = n - row * static_cast<uint32_t>(p.chunks);
        return row;
    }
    __device__ __forceinline__ Slot& slot(uint32_t wave) const { return shared.slots[wave % slots]; }
    static __device__ __forceinline__ int64_t place(uint32_t wave, uint32_t block) {
        return static_cast<int64_t>(wave % slots) * gridDim.x + block;
    }

    __device__ __forceinline__ void make_barriers() const {
        for (uint32_t i = 0; i < slots; ++i) {
            ptx::make_barrier(ptx::shared_address(&slot(i).totals_barrier), Warps);
            ptx::make_barrier(ptx::shared_address(&slot(i).published_barrier), 1);
            ptx::make_barrier(ptx::shared_address(&slot(i).carries_barrier), Warps);
        }
    }
    // `signal` makes what the thread wrote to shared memory visible to the threads that `wait` for the wave.
    static __device__ __forceinline__ void signal(uint64_t& barrier) { ptx::arrive(ptx::shared_address(&barrier)); }
    static __device__ __forceinline__ void wait(uint64_t& barrier, uint32_t wave) {
        ptx::wait_for_phase(ptx::shared_address(&barrier), wave / slots & 1);
    }

    // Inclusive scan of the maps `m` of the first `lanes` lanes.
    static __device__ __forceinline__ void scan(Map& m, int lanes) {
        for (int distance = 1; distance < lanes; distance *= 2) {
            const Map earlier = Ty::shuffle_map(m, lane() - distance & 31);
            if (lane() >= distance) m = Ty::compose(earlier, m);
        }
    }
    // Waits for the walking warps' totals; lane i gets the composition of the totals of warps 0 to i.
    __device__ __forceinline__ Map scan_totals(uint32_t wave) const {
        wait(slot(wave).totals_barrier, wave);
        Map m = lane() < Warps ? to_map<Ty>(slot(wave).totals[lane()]) : Ty::identity();
        scan(m, Warps);
        return m;
    }

    // The carry that a row starts from.
    __device__ __forceinline__ Wide first_of(uint32_t row) const {
        return p.edge_in != nullptr ? static_cast<const Wide*>(p.edge_in)[row] : Wide{};
    }

    // The publisher: one warp of each block.
    __device__ __forceinline__ void publish() const {
        ptx::wait_for_launch_before();  // the launch before sets the tags
        for (uint32_t k = 0; k < count(); ++k) {
            Map m = scan_totals(k);
            uint32_t turn;
            const uint32_t row = row_of(k, turn);
            if (lane() == Warps - 1) {
                if (turn == 0) {
                    const Wide first = first_of(row);
                    slot(k).first = first;
                    m = {m.a, Ty::apply(m, first), true};
                }
                send_value(p.records, place(k, blockIdx.x), Record<Ty>{m.x, m.a}, uint64_t{k} << 1 | m.cut);
                signal(slot(k).published_barrier);
            }
        }
    }

    // The receiver: one warp of each block.
    __device__ __forceinline__ void receive() const {
        ptx::wait_for_launch_before();
        for (uint32_t k = 0; k < count(); ++k) {
            const Map through = scan_totals(k), before = Ty::shuffle_map(through, lane() - 1 & 31);
            uint32_t turn;
            row_of(k, turn);
            wait(slot(k).published_barrier, k);
            Wide carry{};
            await_values<Wide, 1>(p.carries, place(k, blockIdx.x), 1, k, [&](int, Wide c, bool) { carry = c; });
            if (turn == 0) carry = slot(k).first;
            if (lane() >= Warps) continue;
            slot(k).carries[lane()] = lane() > 0 ? Ty::apply(before, carry) : carry;
            signal(slot(k).carries_barrier);
        }
    }

    // The reducer: one warp of the first block. A lane composes `part` neighbouring chunks of a wave; a chunk has
    // `steps` steps.
    template <bool Down, bool Backward>
    __device__ __forceinline__ void reduce(int steps) const {
        ptx::wait_for_launch_before();
        const uint32_t part = (gridDim.x + 31) / 32, first = static_cast<uint32_t>(lane()) * part;
        Wide start{};
        for (uint32_t k = 0; k < waves(); ++k) {
            const uint32_t blocks = min(gridDim.x, w.chunks - k * gridDim.x);
            const int mine = first < blocks ? static_cast<int>(min(part, blocks - first)) : 0;
            Map maps[most_of_lane], through = Ty::identity();
            await_values<Record<Ty>, most_of_lane>(p.records, place(k, first), mine, k,
                                                   [&](int i, const Record<Ty>& r, bool cut) {
                                                       maps[i] = {r.a, r.x, cut};
                                                   });
#pragma unroll
            for (int i = 0; i < most_of_lane; ++i)
                if (i < mine) through = Ty::compose(through, maps[i]);
            scan(through, 32);
            const Map before = Ty::shuffle_map(through, lane() - 1 & 31);
            Wide carries[most_of_lane], next = shuffle(Ty::apply(through, start), 31);
            Wide carry = lane() > 0 ? Ty::apply(before, start) : start;
            bool finite = is_finite(next);
#pragma unroll
            for (int i = 0; i < most_of_lane; ++i) {
                if (i >= mine) continue;
                carries[i] = carry;
                finite = finite && is_finite(carry);
                carry = Ty::apply(maps[i], carry);
            }
            if (!__all_sync(0xffffffffU, finite)) [[unlikely]]
                next = pass_in_order<Ty>(maps, mine, start, carries, [&](int i, Wide into, Wide computed) {
                    return walk_chunk<Down, Backward>(k * gridDim.x + first + i, steps, into, computed);
                });
#pragma unroll
            for (int i = 0; i < most_of_lane; ++i)
                if (i < mine) send_value(p.carries, place(k, first + i), carries[i], uint64_t{k} << 1);
            start = next;
        }
    }
    // The carry that leaves chunk n, which `carry` enters, by a walk in order.
    template <bool Down, bool Backward>
    __device__ __forceinline__ Wide walk_chunk(uint32_t n, int steps, Wide carry, Wide computed) const {
        const uint32_t row = quotient(n, w.by_chunks), turn = n - row * static_cast<uint32_t>(p.chunks);
        const uint32_t batch = p.batches > 1 ? quotient(row, p.by_row_groups) : 0;
        const ChunkSteps<Down> chunk = steps_of_chunk<Down>(p, turn, steps);
        return carry_in_order<Ty, Down, Backward>(p, batch, row - batch * static_cast<uint32_t>(p.rows), chunk.first(),
                                                  chunk.beyond(), turn == 0 ? first_of(row) : carry, computed);
    }
};

}  // namespace flashscan::cuda
