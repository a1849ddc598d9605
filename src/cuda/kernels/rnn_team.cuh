// SPDX-License-Identifier: Apache-2.0
// A team of blocks that holds a matrix on chip and multiplies it, step after step, by vectors that its blocks make:
//
//     out[m, n] = sum over k of W[m, k] v[k, n]
//
// Each block has the rows m of its units, `Gates` for each unit, and all of k; n are 8 NT rows of the batch. A block is
// MW x KW warps: a warp has 8 UG units and one of KW parts of k, its part of W in registers as left operands of the
// tensor cores from the first step to the last. Half a 16 x 16 operand is one gate of 8 units, so that a lane finds
// all gates of its elements in its own sums. Within 32 consecutive k the order is chosen such that the right operands
// of a lane are 16 consecutive bytes of v.
//
// Vectors travel through shared memory where the team is one block (Local), else through a ring of slots in global
// memory, which stays in L2. What is read from the ring validates itself: slots are filled with ones, which no rounding
// produces, and a lane reads its 16 bytes again until no word of them is ones. So a step costs one store and one load
// through L2 and no barrier between blocks. Slots are emptied by who filled them, eight turns at a time and long before
// they are used again, with a fence.
//
// Sums of KW parts are added in order through shared memory: bits depend on nothing but the shape.
#pragma once

#include "cuda/kernels/rnn_fused_params.h"
#include "cuda/kernels/types.cuh"
#include "cuda/ptx/exchange.cuh"
#include "cuda/ptx/mma.cuh"

namespace flashscan::cuda {

template <int Gates, int UG, int NT, int MW, int KW, int KT, bool Local_>
struct TeamShape {
    static constexpr int gates = Gates, groups = UG, row_tiles = NT, unit_warps = MW, parts = KW, steps = KT;
    static constexpr bool local = Local_;
    static constexpr int threads = 32 * MW * KW;
    static constexpr int units = 8 * UG * MW;           // of a block
    static constexpr int rows = 8 * NT;                 // of a team
    static constexpr int depth = 16 * KT * KW;          // of k
    static constexpr int tiles = (UG * Gates + 1) / 2;  // left operands above each other
    static constexpr int elements = UG * NT * 2;        // of a lane's sums, each with all gates
    static constexpr int own = (elements + KW - 1) / KW;
    static constexpr int chains = tiles * NT >= 4 || KT < 4 ? 1 : tiles * NT == 1 ? 4 : 2;
    static_assert(KT % 2 == 0);
    // Halves of a row of vectors in shared memory: rows are 64 bytes apart modulo 128, so that two fill the banks.
    static constexpr int stride = (depth + 63) / 64 * 64 + 32;
    static constexpr int partial_floats = KW > 1 ? 2 * MW * KW * elements * 32 * Gates : 0;
    static constexpr int shared_bytes = partial_floats * 4 + (Local_ ? 2 * rows * stride * 2 : 0);
};

// Where a lane's element is: e = (group of units, tile of rows, one of two rows).
template <typename S>
struct TeamElement {
    int unit, row;  // in the block, in the team's rows
    bool exists;
    __device__ __forceinline__ TeamElement(int i) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int e = i * S::parts + warp % S::parts;
        unit = (warp / S::parts * S::groups + e / (2 * S::row_tiles)) * 8 + lane / 4;
        row = e / 2 % S::row_tiles * 8 + lane % 4 * 2 + e % 2;
        exists = e < S::elements;
    }
};

template <typename S>
struct TeamWeights {
    uint32_t a[S::tiles][S::steps][4];

    // load(unit in the block, gate, k): words of 8 consecutive k.
    template <typename Load>
    __device__ __forceinline__ void fill(Load load) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int unit = warp / S::parts * S::groups * 8 + lane / 4, k = warp % S::parts * S::steps * 16 + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2 * S::tiles; ++half) {
            const int group = half / S::gates, gate = half % S::gates;
#pragma unroll
            for (int pair = 0; pair < S::steps / 2; ++pair) {
                uint4 w{};
                if (group < S::groups) w = load(unit + group * 8, gate, k + pair * 32);
                uint32_t(&low)[4] = a[half / 2][2 * pair], (&high)[4] = a[half / 2][2 * pair + 1];
                low[half % 2] = w.x, low[2 + half % 2] = w.y, high[half % 2] = w.z, high[2 + half % 2] = w.w;
            }
        }
    }
};

// The vectors of one turn after the other: a slot is [rows, depth].
template <typename S>
class TeamVectors {
  public:
    __device__ __forceinline__ explicit TeamVectors(uint32_t* memory) : memory_(memory) {}

    __device__ __forceinline__ uint4* words(int64_t turn, int row, int k) const {
        const int slot = S::local ? static_cast<int>(turn & 1) : static_cast<int>(turn & (rnn_ring_slots - 1));
        constexpr int stride = S::local ? S::stride : S::depth;
        return reinterpret_cast<uint4*>(memory_ + (slot * S::rows + row) * stride / 2 + k / 2);
    }
    // 8 consecutive k of a row.
    __device__ __forceinline__ uint4 get(int64_t turn, int row, int k) const {
        const uint4* const from = words(turn, row, k);
        return S::local ? *from : ptx::load_shared_words(from);
    }
    static __device__ __forceinline__ bool valid(const uint4& v) {
        constexpr uint32_t empty = 0xffffffffU;
        return S::local || (v.x != empty && v.y != empty && v.z != empty && v.w != empty);
    }
    // All lanes of a warp, for elements of one group: lanes of even units store theirs and their neighbour's.
    __device__ __forceinline__ void put(int64_t turn, int row, int k, uint32_t half) const {
        const uint32_t other = __shfl_xor_sync(0xffffffffU, half, 4);
        if ((threadIdx.x & 4U) != 0) return;
        store(turn, row, k, half | other << 16);
    }
    __device__ __forceinline__ void empty(int64_t turn, int row, int k) const {
        if ((threadIdx.x & 4U) == 0) store(turn, row, k, 0xffffffffU);
    }

  private:
    __device__ __forceinline__ void store(int64_t turn, int row, int k, uint32_t word) const {
        uint32_t* const to = reinterpret_cast<uint32_t*>(words(turn, row, k / 8 * 8)) + k % 8 / 2;
        if constexpr (S::local)
            *to = word;
        else
            ptx::store_shared_word(to, word);
    }
    uint32_t* memory_;
};

// The sums of a lane's own elements. used(k): whether the 8 k from here on are there.
template <typename X, typename S, typename Used>
__device__ __forceinline__ void team_product(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, int64_t turn,
                                             float* partials, Used used, float (&sums)[S::own][S::gates]) {
    constexpr int items = S::steps / 2 * S::row_tiles, ahead = items < 12 ? items : 8;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int k0 = warp % S::parts * S::steps * 16 + lane % 4 * 8;
    float c[S::chains][S::tiles][S::row_tiles][4] = {};
    uint4 v[ahead];
    const auto fetch = [&](int item) {
        const int k = k0 + item / S::row_tiles * 32;
        return used(k) ? vectors.get(turn, item % S::row_tiles * 8 + lane / 4, k) : uint4{};
    };
#pragma unroll
    for (int item = 0; item < ahead; ++item) v[item] = fetch(item);
#pragma unroll
    for (int item = 0; item < items; ++item) {
        uint4& b = v[item % ahead];
        while (__any_sync(0xffffffffU, static_cast<int>(!TeamVectors<S>::valid(b)))) b = fetch(item);
        const int pair = item / S::row_tiles, n = item % S::row_tiles;
#pragma unroll
        for (int m = 0; m < S::tiles; ++m)
            ptx::multiply_add<X>(c[2 * pair % S::chains][m][n], weights.a[m][2 * pair], b.x, b.y);
#pragma unroll
        for (int m = 0; m < S::tiles; ++m)
            ptx::multiply_add<X>(c[(2 * pair + 1) % S::chains][m][n], weights.a[m][2 * pair + 1], b.z, b.w);
        if (item + ahead < items) b = fetch(item + ahead);
    }
    const auto sum = [&](int e, int gate) {
        const int half = e / (2 * S::row_tiles) * S::gates + gate, at = half % 2 * 2 + e % 2;
        float total = c[0][half / 2][e / 2 % S::row_tiles][at];
#pragma unroll
        for (int chain = 1; chain < S::chains; ++chain) total += c[chain][half / 2][e / 2 % S::row_tiles][at];
        return total;
    };
    if constexpr (S::parts == 1) {
#pragma unroll
        for (int e = 0; e < S::own; ++e)
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) sums[e][gate] = sum(e, gate);
    } else {
        // [turn parity][unit warp][part][element][gate][lane]
        float* const mine = partials + ((turn & 1) * S::unit_warps + warp / S::parts) * S::parts * S::elements * S::gates * 32;
#pragma unroll
        for (int e = 0; e < S::elements; ++e)
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate)
                mine[((warp % S::parts * S::elements + e) * S::gates + gate) * 32 + lane] = sum(e, gate);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < S::own; ++i) {
            const int e = i * S::parts + warp % S::parts;
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) {
                float total = 0;
                if (S::elements % S::parts == 0 || e < S::elements)
#pragma unroll
                    for (int part = 0; part < S::parts; ++part)
                        total += mine[((part * S::elements + e) * S::gates + gate) * 32 + lane];
                sums[i][gate] = total;
            }
        }
    }
}

}  // namespace flashscan::cuda
