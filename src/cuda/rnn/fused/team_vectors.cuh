// SPDX-License-Identifier: Apache-2.0
// The shape of a team (team.cuh), and the all-gather by which its blocks exchange the vectors of a step:
//
//     block     The team is one block and exchanges through its shared memory.
//     cluster   Each block stores its part into the shared memory of all blocks, where mbarriers count the bytes.
//     grid      The team exchanges through a ring of slots in global memory, which stays in L2. Slots are filled with
//               ones, which no rounding produces, and a lane polls its 16 bytes until none of their words is ones. A
//               step costs one store and one load through L2 and no barrier between blocks. Each block clears the slots
//               that it filled, 16 turns at a time and long before they are used again, with a fence.
//
// A turn is one exchange; turns are counted through all steps and jobs of a team.
#pragma once

#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/exchange.cuh"
#include "cuda/device/ptx/held.cuh"
#include "cuda/rnn/fused/params.h"

namespace flashscan::cuda {

constexpr int most_shared_bytes = 227 * 1024;  // the most shared memory of a block

struct TeamSize {
    int groups, row_tiles, unit_warps, parts, steps;
    int tile_rows = 8;  // with 4, every second column of a product is empty, and a lane has half as many elements
    int stored = 0;     // how many of a warp's operands of weights, the last ones, are in shared memory
    // Specialised warps (warp_roles.cuh): how many warps run cells for each of two tiles of rows that alternate. While
    // one tile is multiplied, the other's cells run or its vectors are under way. With 0 all warps do both, for one
    // tile.
    int cell_warps = 0;
    int product_registers = 0, cell_registers = 0;  // registers of a thread in these two roles
};

template <int Planes, int Gates, int Runs, Team Kind, TeamSize Z>
struct TeamShape {
    static constexpr bool scatters = false;
    static constexpr int planes = Planes, gates = Gates, runs = Runs;
    static constexpr int groups = Z.groups, row_tiles = Z.row_tiles, unit_warps = Z.unit_warps, parts = Z.parts;
    static constexpr int steps = Z.steps, tile_rows = Z.tile_rows, lane_rows = tile_rows / 4;
    static constexpr Team kind = Kind;
    static constexpr bool in_shared = Kind != Team::grid;
    static constexpr int product_threads = 32 * unit_warps * parts;
    // Rounded up to whole warpgroups, which alone can change their numbers of registers.
    static constexpr int threads = product_threads + (2 * Z.cell_warps + 3) / 4 * 128;
    static constexpr int product_registers = Z.product_registers, cell_registers = Z.cell_registers;
    static constexpr int registers = 65536 / threads / 8 * 8;  // registers of a thread at the launch
    static constexpr int units = 8 * groups * unit_warps;      // units of a block
    static constexpr int rows = tile_rows * row_tiles;         // rows of a product
    static constexpr int cell_warps = Z.cell_warps, shifts = cell_warps > 0 ? 2 : 1, team_rows = shifts * rows;
    static_assert(cell_warps == 0 || (Kind == Team::grid && unit_warps == 1));
    static constexpr int depth = 16 * steps * parts;        // the extent of k
    static constexpr int period = depth / runs;             // the extent of k of a run
    static constexpr int tiles = (groups * gates + 1) / 2;  // left operands of a warp along m
    static constexpr int operands = planes * tiles * steps, stored = Z.stored;
    static constexpr int elements = groups * row_tiles * lane_rows;  // elements of a lane's sums, with all gates each
    static constexpr int sharing = cell_warps > 0 ? cell_warps : parts;  // warps that share these elements
    static constexpr int own = (elements + sharing - 1) / sharing;
    static constexpr int chains = planes > 1                           ? (tiles >= 4 ? 1 : 4 / tiles)
                                  : tiles* row_tiles >= 4 || steps < 4 ? 1
                                  : tiles* row_tiles == 1              ? 4
                                                                       : 2;
    static_assert(steps % 2 == 0 && (elements % sharing == 0 || elements < sharing));
    // With parts > 1 a barrier of the block lies between reading a turn's vectors and adding the sums. Clusters and
    // grids rely on it: all warps have read a slot before it is overwritten.
    static_assert(Kind == Team::block || parts > 1);
    // 16-bit halves that a unit sends, of a row of vectors, and from a row to the next. In shared memory rows are 64
    // bytes apart modulo 128, so that two rows use all banks.
    static constexpr int sent = planes * runs, row_halves = planes * depth;
    static constexpr int stride = in_shared ? (row_halves + 63) / 64 * 64 + 32 : row_halves;
    // Offsets in shared memory, after the partial sums: of the vectors, of what a block sends to the cluster, of the
    // mbarriers and of the weights.
    static constexpr int vectors_at = parts > 1 ? 2 * unit_warps* parts* elements * 32 * gates * 4 : 0;
    static constexpr int staged_at = vectors_at + (in_shared ? 2 * rows * stride * 2 : 0);
    static constexpr int barriers_at = staged_at + (Kind == Team::cluster ? rows * units * sent * 2 : 0);
    static constexpr int weights_at = barriers_at + (Kind == Team::cluster ? 16 : 0);
    // The right operands of a lane. An item is 16 bytes: two steps of k and 8 rows of one plane. The items of all
    // planes follow each other. A window is how many a lane holds at once.
    static constexpr int items = steps / 2 * row_tiles * planes;
    static constexpr int window = items <= (cell_warps > 0 ? 4 : 12) ? items
                                  : cell_warps > 0                   ? 6
                                  : planes == 1                      ? 8
                                                                     : 2 * planes;
    static constexpr int together = planes, chunks = (items + window - 1) / window, staged = 0;
    static constexpr int shared_bytes = weights_at + stored * product_threads * 16;
    static_assert(shared_bytes <= most_shared_bytes && (in_shared || period % 32 == 0));
};

// Packs the 16-bit halves of two neighbouring units into a word: lanes of even units get their own and the next unit's
// `a`, lanes of odd units get the `b` of the unit before and their own. All lanes of a warp must call it.
__device__ __forceinline__ bool has_even_unit() { return (threadIdx.x & 4U) == 0; }
__device__ __forceinline__ uint32_t pair_halves(uint32_t a, uint32_t b) {
    const uint32_t other = __shfl_xor_sync(0xffffffffU, has_even_unit() ? b : a, 4);
    return has_even_unit() ? a | other << 16 : other | b << 16;
}

// The exchange of vectors, turn after turn.
template <typename S>
class TeamVectors {
  public:
    __device__ __forceinline__ TeamVectors(const RnnFusedParams& f, unsigned char* shared, int shift)
        : blocks_(f.blocks), shift_(shift), shared_(shared) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int k = warp % S::parts * S::steps * 16 + lane % 4 * 8;
        const int mine = at(lane / 4 * S::lane_rows / 2, k) / 2;
        if constexpr (S::in_shared) {
            memory_ = reinterpret_cast<uint32_t*>(shared + S::vectors_at);
            read_ = ptx::held_shared(memory_ + mine);
        } else {
            constexpr int64_t ring = rnn_ring_slots * S::rows * S::stride / 2;
            const int team = static_cast<int>(blockIdx.x) / blocks_;
            memory_ = ptx::held_global(static_cast<uint32_t*>(f.ring) + (team * S::shifts + shift) * ring);
            read_ = ptx::held_global(memory_ + mine);
#pragma unroll
            for (int pair = 0; pair < S::steps / 2; ++pair)
                used_ |= static_cast<uint32_t>((k + pair * 32) % S::period < blocks_ * S::units) << pair;
            // Rows that do not exist are not read.
            if (f.tiles == 1 && shift * S::rows + lane / 4 * S::lane_rows / 2 >= f.p.state_rows) used_ = 0;
        }
    }

    // Selects one of two buffers: the sums of one product are read while those of the next are written.
    __device__ __forceinline__ int parity(uint32_t turn) const {
        return S::shifts == 1 ? static_cast<int>(turn & 1) : shift_;
    }

    // Prepares shared memory and barriers. To be called before the first turn, which is 0.
    __device__ __forceinline__ void begin() const {
        if constexpr (S::in_shared) {  // places where nothing is put must hold zeros
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

    // The place of a row and a unit of this block: an index into a slot or, in a cluster, into the staging buffer.
    __device__ __forceinline__ int place(int row, int unit) const {
        if constexpr (S::kind == Team::cluster) return row * S::units * S::sent + unit;
        return at(row, static_cast<int>(blockIdx.x) % blocks_ * S::units + unit);
    }
    // Puts a word of pair_halves at the `place` of a lane's own unit.
    __device__ __forceinline__ void put(uint32_t turn, int place, int plane, int run, uint32_t word) const {
        run += plane * S::runs;
        if constexpr (S::kind == Team::cluster)
            reinterpret_cast<uint32_t*>(shared_ + S::staged_at)[(place + run * S::units) / 2] = word;
        else
            store(slot(turn) + (place + run * run_halves) / 2, word);
    }
    // Puts a lane's own half, for teams that exchange through shared memory.
    __device__ __forceinline__ void put_half(uint32_t turn, int place, int plane, int run, uint32_t half) const {
        const uint16_t bits = static_cast<uint16_t>(half);
        unsigned char* const base =
            S::kind == Team::cluster ? shared_ + S::staged_at : reinterpret_cast<unsigned char*>(slot(turn));
        const int halves = S::kind == Team::cluster ? S::units : run_halves;
        reinterpret_cast<uint16_t*>(base)[place + (plane * S::runs + run) * halves] = bits;
    }
    // Sends what was put to the cluster. All threads of the block must call it after the last put of a turn. A store
    // has 16 bytes, and the stores of a warp go to one block; stores to several blocks at once take 1.5 times as long.
    __device__ __forceinline__ void send(uint32_t turn) const {
        if constexpr (S::kind == Team::cluster) {
            constexpr int chunks = S::units / 8, pieces = S::rows * S::sent * chunks;
            constexpr int at_once = S::threads < pieces ? 1 : S::threads / pieces;
            __syncthreads();
            const int rank = static_cast<int>(blockIdx.x) % blocks_, first = static_cast<int>(threadIdx.x) / pieces;
            const uint32_t base = ptx::shared_address(shared_), bar = barrier(turn) - base;
            for (int piece = static_cast<int>(threadIdx.x) % pieces; piece < pieces; piece += S::threads) {
                const int run = piece / chunks % S::sent, row = piece / (S::sent * chunks);
                const int k = run * S::period + rank * S::units + piece % chunks * 8;
                const uint4 v = reinterpret_cast<const uint4*>(shared_ + S::staged_at)[piece];
                const uint32_t at = ptx::shared_address(slot(turn)) - base + (row * S::stride + k) * 2;
                for (int i = first < at_once ? first : blocks_; i < blocks_; i += at_once) {
                    const uint32_t there = ptx::address_in(base, rank + i < blocks_ ? rank + i : rank + i - blocks_);
                    ptx::store_async(there + at, v, there + bar);
                }
            }
        }
    }

    // All threads of the block call arrive and then wait before they use what they get of a turn. For a grid, loads
    // from the ring start between the two: earlier loads, before the block has put its own part, would come too early
    // anyway and would slow the other blocks down.
    __device__ __forceinline__ void arrive() const {
        if constexpr (S::kind != Team::cluster && S::cell_warps == 0) __syncthreads();
    }
    __device__ __forceinline__ void wait(uint32_t turn) const {
        if constexpr (S::kind == Team::cluster) {
            ptx::wait_for_phase(barrier(turn), turn >> 1 & 1U);
            if (threadIdx.x == 0) ptx::expect_bytes(barrier(turn), turn_bytes());  // turn + 2 has the same barrier
        }
    }
    // Loads an item of a lane's right operands.
    __device__ __forceinline__ uint4 get(uint32_t turn, int item) const {
        const uint4* const from = address_of(turn, item);
        if constexpr (S::in_shared) return *from;
        return uses(item) ? ptx::load_shared_words(from) : uint4{};
    }
    static __device__ __forceinline__ bool empty(uint32_t, const uint4& v) {
        constexpr uint32_t ones = 0xffffffffU;
        return v.x == ones || v.y == ones || v.z == ones || v.w == ones;
    }

    // For a grid, every 16th turn after its product: clears what this lane put at `place` into 16 slots. A block that
    // has all vectors of turn n knows that all blocks have put them and have therefore read turn n - 1. Where a job
    // begins nothing is read, so that only turn n - 2 is certain to have been read.
    __device__ __forceinline__ void clear(uint32_t turn, int place) const {
        if (!has_even_unit()) return;
#pragma unroll 1
        for (uint32_t n = 2; n < 2 + rnn_ring_cleared; ++n)
            for (int run = 0; run < S::sent; ++run) store(slot(turn - n) + (place + run * run_halves) / 2, 0xffffffffU);
    }

  private:
    // In shared memory a slot is [rows, stride] halves, laid out without bank conflicts. In L2 it is [k / 32, rows,
    // 32], so that a warp reads whole lines.
    static constexpr int row_halves = S::in_shared ? S::stride : 32;
    static constexpr int k_halves = S::in_shared ? 1 : S::rows;  // halves for each k, if k counts in steps of 32
    static constexpr int run_halves = S::period * k_halves;
    static __device__ __forceinline__ int at(int row, int k) {
        return row * row_halves + (S::in_shared ? k : k / 32 * (32 * S::rows) + k % 32);
    }
    static constexpr __device__ __forceinline__ int pair_of(int item) { return item / S::planes / S::row_tiles; }
    __device__ __forceinline__ const uint4* address_of(uint32_t turn, int item) const {
        const int rows = item / S::planes % S::row_tiles, plane = item % S::planes;
        const int more = rows * S::tile_rows * row_halves + (plane * S::depth + pair_of(item) * 32) * k_halves;
        return reinterpret_cast<const uint4*>(read_ + slot_words(turn) + more / 2);
    }
    __device__ __forceinline__ bool uses(int item) const { return (used_ >> pair_of(item) & 1U) != 0; }
    static __device__ __forceinline__ uint32_t slot_words(uint32_t turn) {
        constexpr int slots = S::in_shared ? 2 : rnn_ring_slots;
        return (turn & (slots - 1)) * (S::rows * S::stride / 2);
    }
    __device__ __forceinline__ uint32_t* slot(uint32_t turn) const { return memory_ + slot_words(turn); }
    static __device__ __forceinline__ void store(uint32_t* to, uint32_t word) {
        if constexpr (S::in_shared)
            *to = word;
        else
            ptx::store_shared_word(to, word);
    }
    __device__ __forceinline__ uint32_t barrier(uint32_t turn) const {
        return ptx::shared_address(shared_ + S::barriers_at) + (turn & 1) * 8;
    }
    __device__ __forceinline__ uint32_t turn_bytes() const {
        return static_cast<uint32_t>(blocks_ * S::rows * S::units * S::sent * 2);
    }

    int blocks_, shift_;
    unsigned char* shared_;
    uint32_t* memory_;
    const uint32_t* read_;  // where a lane's right operands of slot 0 begin
    uint32_t used_ = 0;
};

}  // namespace flashscan::cuda
