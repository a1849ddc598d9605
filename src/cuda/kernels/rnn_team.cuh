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
    static_assert(elements % KW == 0 || elements < KW);
    static constexpr int chains = tiles * NT >= 4 || KT < 4 ? 1 : tiles * NT == 1 ? 4 : 2;
    static_assert(KT % 2 == 0);
    // Halves of a row of vectors; in shared memory rows are 64 bytes apart modulo 128, so that two fill the banks.
    static constexpr int stride = Local_ ? (depth + 63) / 64 * 64 + 32 : depth;
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

// All gates of an element, moved at once.
template <int Gates>
struct alignas(Gates == 4 ? 16 : 4) TeamSums {
    float gate[Gates];
};

// Left operands of a warp, as rnn_fused_weights.cuh orders them.
template <typename S>
struct TeamWeights {
    uint32_t a[S::tiles][S::steps][4];

    // `from`: those of this block's head and of all blocks of the team.
    __device__ __forceinline__ void load(const uint4* from, int block) {
        from += (block * (S::threads / 32) + static_cast<int>(threadIdx.x) / 32) * (S::tiles * S::steps * 32);
#pragma unroll
        for (int m = 0; m < S::tiles; ++m)
#pragma unroll
            for (int k = 0; k < S::steps; ++k) {
                const uint4 w = from[(m * S::steps + k) * 32 + static_cast<int>(threadIdx.x) % 32];
                a[m][k][0] = w.x, a[m][k][1] = w.y, a[m][k][2] = w.z, a[m][k][3] = w.w;
            }
    }
};

// The vectors of one turn after the other: a slot is [rows, stride] halves. `place`: row * stride + k.
template <typename S>
class TeamVectors {
  public:
    // `used`: k of every `period` that some block writes; lanes read zeros past it.
    __device__ __forceinline__ TeamVectors(uint32_t* memory, int used, int period) : memory_(memory) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int k = warp % S::parts * S::steps * 16 + lane % 4 * 8;
        mine_ = lane / 4 * S::stride + k;
#pragma unroll
        for (int pair = 0; pair < S::steps / 2; ++pair)
            used_ |= static_cast<uint32_t>((k + pair * 32) % period < used) << pair;
    }

    // Zeros where nothing is put.
    __device__ __forceinline__ void begin() const {
        if constexpr (S::local) {
            for (int i = static_cast<int>(threadIdx.x); i < S::rows * S::stride; i += S::threads) memory_[i] = 0;
            __syncthreads();
        }
    }
    // A lane's right operand of two steps of k and 8 rows.
    __device__ __forceinline__ uint4 get(int64_t turn, int pair, int rows) const {
        if (!S::local && (used_ >> pair & 1U) == 0) return uint4{};
        const auto* const from =
            reinterpret_cast<const uint4*>(slot(turn) + (mine_ + rows * 8 * S::stride + pair * 32) / 2);
        if constexpr (S::local)
            return *from;
        else
            return ptx::load_shared_words(from);
    }
    static __device__ __forceinline__ bool empty(const uint4& v) {
        constexpr uint32_t ones = 0xffffffffU;
        return v.x == ones || v.y == ones || v.z == ones || v.w == ones;
    }
    // All lanes of a warp, for elements of one group: lanes of even units store theirs and their neighbour's.
    __device__ __forceinline__ void put(int64_t turn, int place, uint32_t half) const {
        const uint32_t other = __shfl_xor_sync(0xffffffffU, half, 4);
        if ((threadIdx.x & 4U) == 0) store(slot(turn) + place / 2, half | other << 16);
    }
    __device__ __forceinline__ void clear(int64_t turn, int place) const {
        if ((threadIdx.x & 4U) == 0) store(slot(turn) + place / 2, 0xffffffffU);
    }

  private:
    __device__ __forceinline__ uint32_t* slot(int64_t turn) const {
        const int index = static_cast<int>(turn) & (S::local ? 1 : rnn_ring_slots - 1);
        return memory_ + index * (S::rows * S::stride / 2);
    }
    static __device__ __forceinline__ void store(uint32_t* to, uint32_t word) {
        if constexpr (S::local)
            *to = word;
        else
            ptx::store_shared_word(to, word);
    }
    uint32_t* memory_;
    int mine_;
    uint32_t used_ = 0;
};

// The sums of a lane's own elements.
template <typename X, typename S>
__device__ __forceinline__ void team_product(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, int64_t turn,
                                             float* partials, float (&sums)[S::own][S::gates]) {
    constexpr int items = S::steps / 2 * S::row_tiles, ahead = items < 12 ? items : 8;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    float c[S::chains][S::tiles][S::row_tiles][4] = {};
    uint4 v[ahead];
    const auto fetch = [&](int item) { return vectors.get(turn, item / S::row_tiles, item % S::row_tiles); };
#pragma unroll
    for (int item = 0; item < ahead; ++item) v[item] = fetch(item);
#pragma unroll
    for (int item = 0; item < items; ++item) {
        uint4& b = v[item % ahead];
        if constexpr (!S::local)
            while (__any_sync(0xffffffffU, static_cast<int>(TeamVectors<S>::empty(b)))) b = fetch(item);
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
        // [turn parity][unit warp][part][element][lane][gate]
        float* const mine = partials + ((turn & 1) * S::unit_warps + warp / S::parts) * S::parts * S::elements * S::gates * 32;
        using Sums = TeamSums<S::gates>;
#pragma unroll
        for (int e = 0; e < S::elements; ++e) {
            Sums part;
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) part.gate[gate] = sum(e, gate);
            reinterpret_cast<Sums*>(mine)[(warp % S::parts * S::elements + e) * 32 + lane] = part;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < S::own; ++i) {
            const int e = i * S::parts + warp % S::parts;
            Sums total{};
            if (S::elements >= S::parts || e < S::elements)
#pragma unroll
                for (int part = 0; part < S::parts; ++part) {
                    const Sums more = reinterpret_cast<const Sums*>(mine)[(part * S::elements + e) * 32 + lane];
#pragma unroll
                    for (int gate = 0; gate < S::gates; ++gate) total.gate[gate] += more.gate[gate];
                }
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) sums[i][gate] = total.gate[gate];
        }
    }
}

}  // namespace flashscan::cuda
