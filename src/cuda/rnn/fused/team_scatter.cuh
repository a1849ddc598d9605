// SPDX-License-Identifier: Apache-2.0
// A team (team.cuh) that exchanges by reduce-scatter, for R^T of backward. A block has the columns k of all gates of
// its own units, and all rows m. It multiplies its own vectors, sends the partial sums to the blocks whose units they
// belong to, and adds up the partial sums that it receives:
//
//     part[b][m, n] = sum over k of b of W[m, k] v[k, n];   out[m, n] = sum over b of part[b][m, n]
//
// Ownership  A block has 8 units and 8 warps, each with an eighth of the rows m. Vectors of a block stay in its shared
//            memory. The team is a part of the grid.
// Bytes      A step moves 4 bytes into L2 and 4 out of it for each unit of the head, row and block, where the
//            all-gather moves 2 gates planes bytes out: a third for an LSTM in f32.
// Sync       Parts are f32 words in slots in global memory, which stay in L2. The last bit of a word does not belong to
//            the number but tells in which round of the slots it was written, so that a word shows by itself whether it
//            has arrived, and slots are never cleared. A block that has all parts of a turn knows that all blocks have
//            read those of the turn before. Nothing is read where a job begins.
// Order      Parts are added in order: bits depend on nothing but the shape.
#pragma once

#include "cuda/rnn/fused/team.cuh"

namespace flashscan::cuda {

// 8 units a block, 8 warps, each with an eighth of the rows m.
template <int Planes, int Runs, int HeadDim, int RowTiles, int StoredPlanes>
struct ScatterShape {
    static constexpr bool scatters = true, in_shared = false;
    static constexpr Team kind = Team::grid;
    static constexpr int planes = Planes, gates = 1, runs = Runs;
    static constexpr int groups = 1, row_tiles = RowTiles, unit_warps = 1, parts = 8, tile_rows = 8, lane_rows = 2;
    static constexpr int threads = 32 * parts, product_threads = threads, units = 8, cell_warps = 0, shifts = 1;
    static constexpr int rows = tile_rows * row_tiles, team_rows = rows, sharing = parts;
    static constexpr int elements = lane_rows * row_tiles, own = 1;
    static constexpr int steps = 2, tiles = HeadDim / (16 * parts), depth = units * runs;
    static constexpr int operands = planes * tiles * steps, stored = StoredPlanes * tiles * steps;
    static constexpr int width = 16 * steps;  // extent of a row of vectors; it has zeros past the last gate
    static_assert(HeadDim % (16 * parts) == 0 && depth <= width && elements <= parts);
    // How a block reads: 16 bytes at once, `pieces` of them for each source block, from `sources` blocks at the same
    // time.
    static constexpr int pieces = rows * units / 4, sources = threads / pieces;
    static constexpr int items = (HeadDim / units + sources - 1) / sources;
    static constexpr int window = items < 4 ? items : 4, together = 1;
    static constexpr int chunks = (items + window - 1) / window, chunk_bytes = window * threads * 16;
    static constexpr int vectors_at = 2 * threads * 16;
    static constexpr int weights_at = vectors_at + 2 * planes * rows * width * 2;
    static constexpr int staging_at = weights_at + stored * threads * 16;
    static constexpr int staged = chunks - 1;
    static constexpr int shared_bytes = staging_at + staged * chunk_bytes;
    static_assert(shared_bytes <= most_shared_bytes);
};

template <typename S>
requires(S::scatters) class TeamVectors<S> {
  public:
    __device__ __forceinline__ TeamVectors(const RnnFusedParams& f, unsigned char* shared, int)
        : blocks_(f.blocks),
          block_(static_cast<int>(blockIdx.x) % f.blocks),
          shared_(shared),
          memory_(static_cast<uint32_t*>(f.ring) +
                  static_cast<int>(blockIdx.x) / f.blocks * rnn_scatter_slots * slot_words()) {}

    __device__ __forceinline__ void begin() const {
        for (int i = static_cast<int>(threadIdx.x); i < S::planes * S::rows * S::width; i += S::threads)
            reinterpret_cast<uint32_t*>(shared_ + S::vectors_at)[i] = 0;
        __syncthreads();
    }
    __device__ __forceinline__ int place(int row, int unit) const { return row * S::width + unit; }
    __device__ __forceinline__ void put(uint32_t turn, int place, int plane, int run, uint32_t word) const {
        vectors(turn)[(plane * S::rows * S::width + place + run * S::units) / 2] = word;
    }
    // The right operand of a lane for all k and 8 rows.
    __device__ __forceinline__ uint4 right(uint32_t turn, int plane, int rows) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int at = ((plane * S::row_tiles + rows) * 8 + lane / 4) * S::width + lane % 4 * 8;
        return *reinterpret_cast<const uint4*>(vectors(turn) + at / 2);
    }
    // Sends a lane's sums of 16 rows m, which are the units of two blocks.
    __device__ __forceinline__ void leave(uint32_t turn, int tile, int rows, const float (&c)[4]) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int to = 2 * tile + half;
            if (to < blocks_)
                ptx::store_shared_words(part(turn, to, block_) + rows * 64 + lane * 2, stamped(turn, c[2 * half]),
                                        stamped(turn, c[2 * half + 1]));
        }
    }

    __device__ __forceinline__ void arrive() const {}
    __device__ __forceinline__ void wait(uint32_t) const {}
    __device__ __forceinline__ uint4 get(uint32_t turn, int item) const {
        const uint32_t none = phase(turn);
        return source(item) < blocks_ ? ptx::load_shared_words(address_of(turn, item)) : uint4{none, none, none, none};
    }
    __device__ __forceinline__ void stage(uint32_t turn, int chunk) const {
#pragma unroll
        for (int item = chunk * S::window; item < (chunk + 1) * S::window && item < S::items; ++item) {
            const uint32_t none = phase(turn);
            if (source(item) < blocks_)
                ptx::copy_async<16>(place_of(item), address_of(turn, item));
            else
                *place_of(item) = uint4{none, none, none, none};
        }
        ptx::end_copy_group();
    }
    __device__ __forceinline__ uint4 staged(int item) const { return *place_of(item); }
    __device__ __forceinline__ bool empty(uint32_t turn, const uint4& v) const {
        const uint32_t here = phase(turn);
        return (((v.x ^ here) | (v.y ^ here) | (v.z ^ here) | (v.w ^ here)) & 1U) != 0;
    }
    static __device__ __forceinline__ float number(uint32_t word) { return __uint_as_float(word & ~1U); }

  private:
    // The round bit of a turn. It is 1 in the first round, because slots start as zeros.
    static __device__ __forceinline__ uint32_t phase(uint32_t turn) { return (~turn / rnn_scatter_slots) & 1U; }
    static __device__ __forceinline__ uint32_t stamped(uint32_t turn, float x) {
        return (__float_as_uint(x) & ~1U) | phase(turn);
    }
    __device__ __forceinline__ int64_t slot_words() const {
        return static_cast<int64_t>(blocks_) * blocks_ * S::rows * S::units;
    }
    __device__ __forceinline__ uint32_t* part(uint32_t turn, int to, int from) const {
        return memory_ + (turn % rnn_scatter_slots) * slot_words() + (to * blocks_ + from) * (S::rows * S::units);
    }
    __device__ __forceinline__ uint32_t* vectors(uint32_t turn) const {
        return reinterpret_cast<uint32_t*>(shared_ + S::vectors_at) + (turn & 1) * (S::planes * S::rows * S::width / 2);
    }
    static __device__ __forceinline__ int source(int item) {
        return item * S::sources + static_cast<int>(threadIdx.x) / S::pieces;
    }
    __device__ __forceinline__ const uint4* address_of(uint32_t turn, int item) const {
        return reinterpret_cast<const uint4*>(part(turn, block_, source(item))) +
               static_cast<int>(threadIdx.x) % S::pieces;
    }
    __device__ __forceinline__ uint4* place_of(int item) const {
        return reinterpret_cast<uint4*>(shared_ + S::staging_at) + (item - S::window) * S::threads + threadIdx.x;
    }

    int blocks_, block_;
    unsigned char* shared_;
    uint32_t* memory_;
};

// Multiplies the vectors of a turn and sends the sums to the blocks whose units they belong to.
template <typename X, typename S>
requires(S::scatters) __device__ __forceinline__
    void team_send(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, uint32_t turn) {
    using Half = typename TeamNumber<X>::Half;
    constexpr int most = 4 / S::row_tiles, at_once = S::tiles % most == 0 ? most : 2;
    static_assert(S::tiles % at_once == 0);
    __syncthreads();
    uint4 v[S::row_tiles][S::planes];
#pragma unroll
    for (int n = 0; n < S::row_tiles; ++n)
#pragma unroll
        for (int j = 0; j < S::planes; ++j) v[n][j] = vectors.right(turn, j, n);
    const int tile = static_cast<int>(threadIdx.x) / 32 * S::tiles;
#pragma unroll
    for (int first = 0; first < S::tiles; first += at_once) {
        float c[at_once][S::row_tiles][4] = {};
#pragma unroll
        for (int i = 0; i < S::planes; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                TeamOperand a[at_once];
#pragma unroll
                for (int m = 0; m < at_once; ++m) a[m] = weights.get(i, first + m, half);
#pragma unroll
                for (int j = 0; i + j < S::planes; ++j)
#pragma unroll
                    for (int m = 0; m < at_once; ++m)
#pragma unroll
                        for (int n = 0; n < S::row_tiles; ++n)
                            ptx::multiply_add<Half>(c[m][n], a[m].word, half == 0 ? v[n][j].x : v[n][j].z,
                                                    half == 0 ? v[n][j].y : v[n][j].w);
            }
#pragma unroll
        for (int m = 0; m < at_once; ++m)
#pragma unroll
            for (int n = 0; n < S::row_tiles; ++n) vectors.leave(turn, tile + first + m, n, c[m][n]);
    }
}

template <typename X, typename S, typename Early, typename Late>
requires(S::scatters) __device__ __forceinline__
    void team_product(const TeamWeights<S>&, const TeamVectors<S>& vectors, uint32_t turn, unsigned char* shared,
                      Early early, Late late, float (&own)[1][1]) {
    float sum[4] = {};
    take_items(vectors, turn, early, late, [&](int, const uint4* v) {
        sum[0] += vectors.number(v->x), sum[1] += vectors.number(v->y);
        sum[2] += vectors.number(v->z), sum[3] += vectors.number(v->w);
    });
    // [parity of turns][source side by side][tile of rows][unit][row]
    float* const sums = reinterpret_cast<float*>(shared) + (turn & 1) * (S::threads * 4);
    reinterpret_cast<float4*>(sums)[threadIdx.x] = {sum[0], sum[1], sum[2], sum[3]};
    __syncthreads();
    if (!TeamElement<S>::exist()) return;
    const TeamElement<S> e(0);
    float total = 0;
#pragma unroll
    for (int i = 0; i < S::sources; ++i) total += sums[i * S::pieces * 4 + e.row / 8 * 64 + e.unit * 8 + e.row % 8];
    own[0][0] = total;
}

}  // namespace flashscan::cuda
