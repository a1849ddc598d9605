// SPDX-License-Identifier: Apache-2.0
// The shape of a team (rnn_team.cuh), and how its blocks hand each other a step's vectors:
//
//     block     the team is one block: shared memory
//     cluster   each block stores its part into the shared memory of all, where barriers count the bytes
//     grid      a ring of slots in global memory, which stays in L2. What is read from it validates itself: slots are
//               filled with ones, which no rounding produces, and a lane reads its 16 bytes again until no word of them
//               is ones. A step costs one store and one load through L2 and no barrier between blocks. Slots are
//               cleared by who filled them, eight turns at a time and long before they are used again, with a fence.
#pragma once

#include "cuda/kernels/rnn_fused_params.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/exchange.cuh"

namespace flashscan::cuda {

struct TeamSize {
    int groups, row_tiles, unit_warps, parts, steps;
};

template <int Gates, int Runs, Team Kind, TeamSize Z>
struct TeamShape {
    static constexpr int gates = Gates, runs = Runs;
    static constexpr int groups = Z.groups, row_tiles = Z.row_tiles, unit_warps = Z.unit_warps, parts = Z.parts;
    static constexpr int steps = Z.steps;
    static constexpr Team kind = Kind;
    static constexpr bool in_shared = Kind != Team::grid;
    static constexpr int threads = 32 * unit_warps * parts;
    static constexpr int units = 8 * groups * unit_warps;   // of a block
    static constexpr int rows = 8 * row_tiles;              // of a team
    static constexpr int depth = 16 * steps * parts;        // of k
    static constexpr int period = depth / runs;             // k of a run
    static constexpr int tiles = (groups * gates + 1) / 2;  // left operands above each other
    static constexpr int elements = groups * row_tiles * 2;  // of a lane's sums, each with all gates
    static constexpr int own = (elements + parts - 1) / parts;
    static constexpr int chains = tiles * row_tiles >= 4 || steps < 4 ? 1 : tiles * row_tiles == 1 ? 4 : 2;
    static_assert(steps % 2 == 0 && (elements % parts == 0 || elements < parts));
    static_assert(Kind == Team::block || parts > 1);  // the barrier of the sums tells that all have read
    static_assert(Kind != Team::cluster || elements >= parts);
    // Halves of a row of vectors; in shared memory rows are 64 bytes apart modulo 128, so that two fill the banks.
    static constexpr int stride = in_shared ? (depth + 63) / 64 * 64 + 32 : depth;
    // What a block makes of a row, before it goes to all blocks of a cluster.
    static constexpr int staged = Kind == Team::cluster ? units * runs : 0;
    // Bytes of shared memory, and where in it the vectors, what is staged and the barriers begin.
    static constexpr int vectors_at = parts > 1 ? 2 * unit_warps * parts * elements * 32 * gates * 4 : 0;
    static constexpr int staged_at = vectors_at + (in_shared ? 2 * rows * stride * 2 : 0);
    static constexpr int barriers_at = staged_at + rows * staged * 2;
    static constexpr int shared_bytes = barriers_at + (Kind == Team::cluster ? 16 : 0);
};

// Halves of the units of two lanes in one word: lanes of even units get their own and the next unit's `a`, lanes of odd
// units the unit's before and their own `b`. All lanes of a warp.
__device__ __forceinline__ bool has_even_unit() { return (threadIdx.x & 4U) == 0; }
__device__ __forceinline__ uint32_t pair_halves(uint32_t a, uint32_t b) {
    const uint32_t other = __shfl_xor_sync(0xffffffffU, has_even_unit() ? b : a, 4);
    return has_even_unit() ? a | other << 16 : other | b << 16;
}

// The vectors of one turn after the other: a slot is [rows, stride] halves.
template <typename S>
class TeamVectors {
  public:
    __device__ __forceinline__ TeamVectors(const RnnFusedParams& f, unsigned char* shared)
        : blocks_(f.blocks), shared_(shared) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int k = warp % S::parts * S::steps * 16 + lane % 4 * 8;
        mine_ = lane / 4 * S::stride + k;
        if constexpr (S::in_shared) {
            memory_ = reinterpret_cast<uint32_t*>(shared + S::vectors_at);
        } else {
            constexpr int64_t ring = rnn_ring_slots * S::rows * S::stride / 2;
            memory_ = static_cast<uint32_t*>(f.ring) + static_cast<int>(blockIdx.x) / blocks_ * ring;
#pragma unroll
            for (int pair = 0; pair < S::steps / 2; ++pair)
                used_ |= static_cast<uint32_t>((k + pair * 32) % S::period < blocks_ * S::units) << pair;
        }
    }

    // Before the first turn, which is 0.
    __device__ __forceinline__ void begin() const {
        if constexpr (S::in_shared) {  // zeros where nothing is put
            for (int i = static_cast<int>(threadIdx.x); i < S::rows * S::stride; i += S::threads) memory_[i] = 0;
            __syncthreads();
        }
        if constexpr (S::kind == Team::cluster) {
            if (threadIdx.x == 0)
                for (uint32_t turn = 0; turn < 2; ++turn) {
                    ptx::make_byte_barrier(barrier(turn));
                    ptx::expect_bytes(barrier(turn), turn_bytes());
                }
            ptx::cluster_barrier();
        }
    }

    // Where this block's `unit` of a row goes in a slot.
    __device__ __forceinline__ int place(int row, int unit) const {
        if constexpr (S::kind == Team::cluster) return row * S::staged + unit;
        return row * S::stride + static_cast<int>(blockIdx.x) % blocks_ * S::units + unit;
    }
    // Puts a lane's word of pair_halves at `place` of its own unit.
    __device__ __forceinline__ void put(uint32_t turn, int place, int run, uint32_t word) const {
        if constexpr (S::kind == Team::cluster)
            reinterpret_cast<uint32_t*>(shared_ + S::staged_at)[(place + run * S::units) / 2] = word;
        else if constexpr (S::kind == Team::block)
            slot(turn)[(place + run * S::period) / 2] = word;
        else
            ptx::store_shared_word(slot(turn) + (place + run * S::period) / 2, word);
    }
    // After the last put of a turn; all threads of the block.
    __device__ __forceinline__ void send(uint32_t turn) const {
        if constexpr (S::kind == Team::cluster) {
            constexpr int chunks = S::units / 8, pieces = S::rows * S::runs * chunks, at_once = S::threads / pieces;
            __syncthreads();
            const int piece = static_cast<int>(threadIdx.x) % pieces, rank = static_cast<int>(blockIdx.x) % blocks_;
            const int run = piece / chunks % S::runs, row = piece / (S::runs * chunks);
            const int k = run * S::period + rank * S::units + piece % chunks * 8;
            const uint4 v = reinterpret_cast<const uint4*>(shared_ + S::staged_at)[piece];
            const uint32_t base = ptx::shared_address(shared_), at = ptx::shared_address(slot(turn)) - base;
            const int first = static_cast<int>(threadIdx.x) / pieces;
            for (int i = first < at_once ? first : blocks_; i < blocks_; i += at_once) {
                const int there = rank + i < blocks_ ? rank + i : rank + i - blocks_;
                const uint32_t to = ptx::address_in(base, there);
                ptx::store_async(to + at + (row * S::stride + k) * 2, v, to + (barrier(turn) - base));
            }
        }
    }

    // Before the first get of a turn; all threads of the block.
    __device__ __forceinline__ void wait(uint32_t turn) const {
        // Grid: no warp asks before the block has put its own part, which is too early anyway and slows the others down.
        if constexpr (S::kind != Team::cluster) __syncthreads();
        if constexpr (S::kind == Team::cluster) {
            ptx::wait_for_phase(barrier(turn), turn >> 1 & 1U);
            if (threadIdx.x == 0) ptx::expect_bytes(barrier(turn), turn_bytes());  // of turn + 2
        }
    }
    // A lane's right operand of two steps of k and 8 rows.
    __device__ __forceinline__ uint4 get(uint32_t turn, int pair, int rows) const {
        const auto* const from =
            reinterpret_cast<const uint4*>(slot(turn) + (mine_ + rows * 8 * S::stride + pair * 32) / 2);
        if constexpr (S::in_shared) return *from;
        return (used_ >> pair & 1U) != 0 ? ptx::load_shared_words(from) : uint4{};
    }
    static __device__ __forceinline__ bool empty(const uint4& v) {
        constexpr uint32_t ones = 0xffffffffU;
        return v.x == ones || v.y == ones || v.z == ones || v.w == ones;
    }

    // Grid, every eighth turn after its product: clears what this lane put at `place` into eight slots. A block that has
    // all vectors of turn n knows that all have put them and have therefore read turn n - 1; where a job begins, nothing
    // is read, so that only turn n - 2 is certain.
    __device__ __forceinline__ void clear(uint32_t turn, int place) const {
#pragma unroll 1
        for (uint32_t n = 2; n < 10; ++n)
            for (int run = 0; run < S::runs; ++run) put(turn - n, place, run, 0xffffffffU);
    }

  private:
    __device__ __forceinline__ uint32_t* slot(uint32_t turn) const {
        constexpr int slots = S::in_shared ? 2 : rnn_ring_slots;
        return memory_ + (turn & (slots - 1)) * (S::rows * S::stride / 2);
    }
    __device__ __forceinline__ uint32_t barrier(uint32_t turn) const {
        return ptx::shared_address(shared_ + S::barriers_at) + (turn & 1) * 8;
    }
    __device__ __forceinline__ uint32_t turn_bytes() const {
        return static_cast<uint32_t>(blocks_ * S::rows * S::staged * 2);
    }

    int blocks_;
    unsigned char* shared_;
    uint32_t* memory_;
    int mine_;
    uint32_t used_ = 0;
};

}  // namespace flashscan::cuda
