// SPDX-License-Identifier: Apache-2.0
// A block of the kernel "persistent" (persistent.cuh): the rows of R that it holds, its products with them, and the
// barriers between the blocks of its team.
//
// A block holds the rows m = gate * units + unit of R, for all k. Rows that do not fit into shared memory are read
// through L2 in every step.
//
//     gather     out[m, n] = sum over k of R[m, k] vector[n, k], after an all-gather: every block reads the vectors of
//                all blocks.
//     scatter    out[k, n] = sum over m of R[m, k] own[m, n], before a reduce-scatter: every block stores its part for
//                all blocks, and each adds up the parts for its own units in the order of the blocks.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/exchange.cuh"
#include "cuda/rnn/element.cuh"
#include "cuda/rnn/persistent/params.h"
#include "cuda/rnn/persistent/tile_product.cuh"

namespace flashscan::cuda {

template <typename X>
class RnnPersistentBlock {
  public:
    using Wide = typename Element<X>::Wide;
    static constexpr int threads = rnn_persistent_threads, warps = threads / 32,
                         each = 16 / sizeof(X);  // elements of 16 bytes

    // `together` is how many gates the first gather has; the second has the others.
    __device__ __forceinline__ RnnPersistentBlock(const RnnPersistentParams& f, unsigned char* shared, int together)
        : f_(f),
          shared_(shared),
          padded_(static_cast<int>(f.p.padded)),
          stride_(rnn_persistent_stride(f.p.padded * sizeof(X)) / static_cast<int>(sizeof(X))),
          team_(static_cast<int>(blockIdx.x) / f.s.blocks),
          block_(static_cast<int>(blockIdx.x) % f.s.blocks),
          gathers_{gather_of(0, together * f.s.units),
                   gather_of(together * f.s.units, (f.gates - together) * f.s.units)} {
        // The bytes between rows are read with them, so they must be zeros.
        for (int i = static_cast<int>(threadIdx.x); i < f.s.sums_at / 16; i += threads)
            reinterpret_cast<uint4*>(shared)[i] = uint4{};
    }

    __device__ __forceinline__ int team() const { return team_; }
    __device__ __forceinline__ int rows() const { return f_.s.tiles * 8; }
    // The thread's element: a row of the group and a unit of the block.
    __device__ __forceinline__ int row() const { return static_cast<int>(threadIdx.x) / f_.s.units; }
    __device__ __forceinline__ int unit() const { return static_cast<int>(threadIdx.x) % f_.s.units; }
    __device__ __forceinline__ bool inside() const {
        return row() < rows() && first_row_ + row() < f_.p.rows && first_unit() + unit() < f_.p.dim;
    }
    __device__ __forceinline__ RnnElement element() const {
        return RnnElement(f_.p, (first_row_ + row()) * f_.p.width + head_ * f_.p.dim + first_unit() + unit());
    }

    __device__ __forceinline__ void begin(int job) {
        const int head = job / f_.s.groups;
        first_row_ = static_cast<int64_t>(job % f_.s.groups) * rows();
        if (head == head_) return;
        head_ = head;
        __syncthreads();
        const int vectors = padded_ / each;
        for (int i = static_cast<int>(threadIdx.x); i < f_.s.stored * vectors; i += threads)
            ptx::copy_async<16>(stored(i / vectors) + i % vectors * each, given(i / vectors) + i % vectors * each);
        ptx::end_copy_group();
    }

    // The barrier of the team, in two halves: what threads of the team wrote before arrive is visible to all after
    // wait. Each arrive needs one wait.
    __device__ __forceinline__ void arrive() {
        ++turn_;
        if (f_.s.blocks == 1) return;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
        if (f_.s.clustered != 0) return ptx::arrive_in_cluster();
#endif
        __syncthreads();
        if (threadIdx.x == 0) ptx::add_arrival(arrivals());
    }
    __device__ __forceinline__ void wait() const {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
        if (f_.s.clustered != 0) return ptx::wait_for_cluster();
#endif
        if (f_.s.blocks > 1 && threadIdx.x == 0) {
            const uint32_t all = turn_ * static_cast<uint32_t>(f_.s.blocks);
            while (static_cast<int32_t>(ptx::load_arrivals(arrivals()) - all) < 0) {
            }
        }
        __syncthreads();
    }

    // Multiplies the rows of R of gather `Which` by `vectors` [rows, H, padded], which all blocks of the team wrote.
    template <int Which>
    __device__ __forceinline__ void gather(const X* vectors) const {
        stage(vectors);
        const Gather& g = gathers_[Which];
        if (g.first + g.count <= f_.s.stored)
            multiply<true>(g);
        else
            multiply<false>(g);
        __syncthreads();
    }
    // Adds the results of the gather for gates First to End of this thread's element.
    template <int Which, int First, int End, int G>
    __device__ __forceinline__ void gathered(Wide (&to)[G]) const {
        const Gather& g = gathers_[Which];
        const Wide* from = sums() + row() * g.across * 16 + unit();
        for (int part = 0; part < g.parts; ++part, from += rows() * g.across * 16)
#pragma unroll
            for (int gate = First; gate < End; ++gate) to[gate] += from[(gate - First) * f_.s.units];
    }

    // Stores the input of scatter for a gate of this thread's element.
    __device__ __forceinline__ void give(int gate, Wide value) const {
        if (row() < rows()) own()[(gate * f_.s.units + unit()) * rows() + row()] = value;
    }
    // Multiplies rows [first, end) of R by that input and stores the block's partial sums. All threads must call it.
    __device__ __forceinline__ void scatter(int first, int end) const {
        ptx::wait_for_copy_groups<0>();
        __syncthreads();
        multiply_across(first, end);
    }
    // Returns the sum of all blocks' partial sums for this thread's element, after scatter, arrive and wait. All
    // threads must call it.
    __device__ __forceinline__ Wide scattered() const {
        const int elements = rows() * f_.s.units, parts = threads / elements;
        const int part = static_cast<int>(threadIdx.x) / elements, i = static_cast<int>(threadIdx.x) % elements;
        const int unit = min(first_unit() + i % f_.s.units, padded_ - 1);
        const Wide* const from = partials(turn_ - 1, 0) + i / f_.s.units * padded_ + unit;
        const int64_t next = static_cast<int64_t>(rows()) * padded_;
        Wide sum = 0;
        constexpr int window = 8;  // loads that are under way together
        for (int b = part; part < parts && b < f_.s.blocks; b += window * parts) {
            Wide loaded[window];
#pragma unroll
            for (int j = 0; j < window; ++j)
                loaded[j] = b + j * parts < f_.s.blocks ? __ldcg(from + (b + j * parts) * next) : Wide(0);
#pragma unroll
            for (int j = 0; j < window; ++j) sum += loaded[j];
        }
        sums()[threadIdx.x] = sum;
        __syncthreads();
        Wide total = 0;
        if (part == 0)
            for (int p = 0; p < parts; ++p) total += sums()[p * elements + i];
        return total;
    }

  private:
    // A warp's tile of a gather: 16 rows from m on, 8 vectors from n on, and steps [begin, end) of k.
    struct Tile {
        int part, m, n, begin, end;
    };
    struct Gather {
        int first, count;   // the rows of R
        int across, parts;  // tiles along m, and warps that share the k of one
        Tile mine;          // this warp's first tile
    };
    template <typename T, int N>
    struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Bunch {
        T at[N];
    };
    template <int N, typename T>
    static __device__ __forceinline__ Bunch<T, N> load_bunch(const T* from) {
        return *reinterpret_cast<const Bunch<T, N>*>(from);
    }

    __device__ __forceinline__ int first_unit() const { return block_ * f_.s.units; }
    __device__ __forceinline__ uint32_t* arrivals() const { return f_.arrivals + team_ * rnn_persistent_line; }
    __device__ __forceinline__ X* stored(int m) const { return reinterpret_cast<X*>(shared_) + m * stride_; }
    __device__ __forceinline__ const X* given(int m) const {
        const int gate = m / f_.s.units, unit = min(first_unit() + m % f_.s.units, padded_ - 1);
        return static_cast<const X*>(f_.weights) +
               ((static_cast<int64_t>(head_) * f_.gates + gate) * padded_ + unit) * padded_;
    }
    __device__ __forceinline__ const X* row_of(int m) const { return m < f_.s.stored ? stored(m) : given(m); }
    __device__ __forceinline__ X* vector(int n) const {
        return reinterpret_cast<X*>(shared_ + f_.s.vectors_at) + n * stride_;
    }
    __device__ __forceinline__ Wide* own() const { return reinterpret_cast<Wide*>(shared_ + f_.s.vectors_at); }
    __device__ __forceinline__ Wide* sums() const { return reinterpret_cast<Wide*>(shared_ + f_.s.sums_at); }
    __device__ __forceinline__ Wide* partials(uint32_t turn, int block) const {
        const int64_t part = static_cast<int64_t>(rows()) * padded_;
        return static_cast<Wide*>(f_.partials) + ((team_ * 2 + (turn & 1)) * f_.s.blocks + block) * part;
    }

    // Copies vectors to shared memory. For rows past the last one, the last one is copied again; their results are not
    // used.
    __device__ __forceinline__ void stage(const X* vectors) const {
        const int share = rows() <= warps / 2 ? 2 : 1, warp = static_cast<int>(threadIdx.x) / 32;
        const int first = (warp % share * 32 + static_cast<int>(threadIdx.x) % 32) * each;
        for (int n = warp / share; n < rows(); n += warps / share) {
            const int64_t row = min(first_row_ + n, f_.p.rows - 1);
            const X* const from = vectors + (row * f_.heads + head_) * padded_;
            X* const to = vector(n);
            for (int k = first; k < padded_; k += share * 32 * each) ptx::copy_async<16>(to + k, from + k);
        }
        ptx::end_copy_group();
        ptx::wait_for_copy_groups<0>();
        __syncthreads();
    }

    // Stored tells that all rows are in shared memory, where zeros follow the last k.
    template <bool Stored>
    __device__ __forceinline__ void multiply(const Gather& g) const {
        const int all = g.across * f_.s.tiles * g.parts, padded = padded_;
        const auto load = [padded](const X* from, int k) {
            return Stored || k < padded ? *reinterpret_cast<const uint4*>(from + k) : uint4{};
        };
        Tile tile = g.mine;
        for (int i = static_cast<int>(threadIdx.x) / 32; i < all; i += warps, tile = tile_of(g, i)) {
            Wide* const to = sums() + tile.part * rows() * g.across * 16;
            RnnTileProduct<X>::run(
                tile.begin, tile.end,
                [&](int at) {
                    const int m = g.first + min(tile.m + at, g.count - 1);
                    return Stored ? stored(m) : row_of(m);
                },
                [&](int at) { return vector(tile.n + at); }, load,
                [&](int at, int column, Wide sum) { to[(tile.n + column) * g.across * 16 + tile.m + at] = sum; });
        }
    }
    __device__ __forceinline__ Tile tile_of(const Gather& g, int i) const {
        constexpr int depth = RnnTileProduct<X>::depth;
        const int steps = (padded_ + depth - 1) / depth, part = i % g.parts, at = i / g.parts;
        return {part, at % g.across * 16, at / g.across * 8, part * steps / g.parts, (part + 1) * steps / g.parts};
    }
    __device__ __forceinline__ Gather gather_of(int first, int count) const {
        Gather g{first, count, (count + 15) / 16, 1, {}};
        if (count == 0) return g;
        g.parts = rnn_persistent_parts(g.across * f_.s.tiles);
        g.mine = tile_of(g, static_cast<int>(threadIdx.x) / 32);
        return g;
    }
    // The product of scatter. A thread computes `wide` k of `deep` rows of the group.
    __device__ __forceinline__ void multiply_across(int first, int end) const {
        constexpr int wide = each < 4 ? each : 4, deep = each == 2 ? 8 : 4;
        const int vectors = padded_ / wide, all = rows();
        Wide* const to = partials(turn_, block_);
        for (int i = static_cast<int>(threadIdx.x); i < vectors * all / deep; i += threads) {
            const int k = i % vectors * wide, n = i / vectors * deep;
            Bunch<Wide, wide> sum[deep] = {};
            const auto add = [&](const X* row, int m) {
                const auto r = load_bunch<wide>(row + k);
                const auto v = load_bunch<deep>(static_cast<const Wide*>(own()) + m * all + n);
#pragma unroll
                for (int j = 0; j < deep; ++j)
#pragma unroll
                    for (int e = 0; e < wide; ++e)
                        sum[j].at[e] = multiply_add(Element<X>::widen(r.at[e]), v.at[j], sum[j].at[e]);
            };
            const int here = min(end, f_.s.stored);
#pragma unroll 2
            for (int m = first; m < here; ++m) add(stored(m), m);
#pragma unroll 2
            for (int m = max(first, here); m < end; ++m) add(given(m), m);
#pragma unroll
            for (int j = 0; j < deep; ++j)
                *reinterpret_cast<Bunch<Wide, wide>*>(to + static_cast<int64_t>(n + j) * padded_ + k) = sum[j];
        }
    }

    const RnnPersistentParams& f_;
    unsigned char* shared_;
    int padded_, stride_, team_, block_, head_ = -1;
    int64_t first_row_ = 0;
    uint32_t turn_ = 0;  // how often this block has arrived
    Gather gathers_[2];
};

}  // namespace flashscan::cuda
