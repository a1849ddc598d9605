// SPDX-License-Identifier: Apache-2.0
// How the chunks of waves.cuh find the carry that enters them.
//
// Wave k is chunks [k n, (k + 1) n) for n blocks, a chunk a block. Each block has three warps for the exchange,
// the third of which works in the first block alone:
//
//   publisher  composes the totals of its block's walking warps into the chunk's summary and sends it to the reducer
//   reducer    composes a wave's summaries, in a tree fixed by n, applies them to the carry that enters the wave, and
//              sends every block its carry; in the first block alone
//   receiver   makes the block's carry those of its walking warps
//
// Where a row begins, the summary takes the row's first carry in and is cut, so that nothing passes from row to row.
// Blocks send each other tagged values (device/exchange/tagged_values.cuh), whose tag is the number of the wave and
// whether the summary is cut. The host sets all tags to ones, and no wave has that number. A slot is used again `slots`
// waves later: whoever publishes then has had a carry that was found after all had read the slot.
#pragma once

#include "cuda/device/exchange/tagged_values.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/linear/look_back.cuh"
#include "cuda/linear/waves/params.h"

namespace flashscan::cuda {

template <typename Ty, int Warps, int Ahead>
struct WaveCarries {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    // A block is at most Ahead + 1 chunks before the one that it waits to walk, and so are the others.
    static constexpr int slots = 2 * Ahead + 3;
    static constexpr int most_of_lane = wave_most_blocks / 32;

    struct Slot {
        uint64_t totals_barrier, published_barrier, carries_barrier;
        Record<Ty> totals[Warps];
        Wide carries[Warps];
        Wide first;  // the carry of a row's first chunk
    };
    struct Shared {
        Slot slots[WaveCarries::slots];
    };

    const LinearParams& p;
    const WavesParams& w;
    Shared& shared;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
    __device__ __forceinline__ uint32_t waves() const { return (w.chunks + gridDim.x - 1) / gridDim.x; }
    // Chunks of this block.
    __device__ __forceinline__ uint32_t count() const {
        return w.chunks > blockIdx.x ? (w.chunks - 1 - blockIdx.x) / gridDim.x + 1 : 0;
    }
    // The row of the block's chunk, whose turn in it is `turn`.
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
    // What the thread wrote is there for those who wait.
    static __device__ __forceinline__ void signal(uint64_t& barrier) { ptx::arrive(ptx::shared_address(&barrier)); }
    static __device__ __forceinline__ void wait(uint64_t& barrier, uint32_t wave) {
        ptx::wait_for_phase(ptx::shared_address(&barrier), wave / slots & 1);
    }

    // Makes `m` of each lane what the first `lanes` compose to up to and with it.
    static __device__ __forceinline__ void scan(Map& m, int lanes) {
        for (int distance = 1; distance < lanes; distance *= 2) {
            const Map earlier = Ty::shuffle_map(m, lane() - distance & 31);
            if (lane() >= distance) m = Ty::compose(earlier, m);
        }
    }
    // Totals of the block's warps up to and with warp lane().
    __device__ __forceinline__ Map scan_totals(uint32_t wave) const {
        wait(slot(wave).totals_barrier, wave);
        Map m = lane() < Warps ? to_map<Ty>(slot(wave).totals[lane()]) : Ty::identity();
        scan(m, Warps);
        return m;
    }

    __device__ __forceinline__ void publish() const {
        ptx::wait_for_launch_before();  // which sets the tags
        for (uint32_t k = 0; k < count(); ++k) {
            Map m = scan_totals(k);
            uint32_t turn;
            const uint32_t row = row_of(k, turn);
            if (lane() == Warps - 1) {
                if (turn == 0) {
                    const Wide first = p.edge_in != nullptr ? static_cast<const Wide*>(p.edge_in)[row] : Wide{};
                    slot(k).first = first;
                    m = {m.a, Ty::apply(m, first), true};
                }
                send_value(p.records, place(k, blockIdx.x), Record<Ty>{m.x, m.a}, uint64_t{k} << 1 | m.cut);
                signal(slot(k).published_barrier);
            }
        }
    }

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

    __device__ __forceinline__ void reduce() const {
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
            Wide carry = lane() > 0 ? Ty::apply(before, start) : start;
#pragma unroll
            for (int i = 0; i < most_of_lane; ++i) {
                if (i >= mine) continue;
                send_value(p.carries, place(k, first + i), carry, uint64_t{k} << 1);
                carry = Ty::apply(maps[i], carry);
            }
            start = shuffle(Ty::apply(through, start), 31);
        }
    }
};

}  // namespace flashscan::cuda
