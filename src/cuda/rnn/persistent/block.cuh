// SPDX-License-Identifier: Apache-2.0
// A block of the kernel "persistent" (persistent.cuh): the rows of R that it holds, its products with them, and the
// barriers between the blocks of its team.
//
// A block holds the rows m = gate * units + unit of R, for all k. Rows that do not fit into shared memory are read
// through L2 in every step.
//
//     gather     out[m, n] = sum over k of R[m, k] vector[n, k], after an all-gather: every block publishes its units
//                of the vectors to all blocks.
//     scatter    out[k, n] = sum over m of R[m, k] own[m, n], before a reduce-scatter: every block stores its part for
//                all blocks, and each adds up the parts for its own units in the order of the blocks.
//
// Vectors and parts go through global memory, but for the vectors of a cluster, which blocks store straight into each
// other's shared memory. Those are double-buffered: turns use two sets of vectors alternately. A block that stores in
// turn t + 1 has waited in turn t, where every block arrived after it had read the vectors of turn t - 1.
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
          row_(static_cast<int>(threadIdx.x) / f.s.units),
          unit_(static_cast<int>(threadIdx.x) % f.s.units),
          gathers_{gather_of(0, together * f.s.units),
                   gather_of(together * f.s.units, (f.gates - together) * f.s.units)},
          copy_(copy_of_thread()),
          sum_(sum_of_thread()),
          across_(across_of(static_cast<int>(threadIdx.x))) {
        // The bytes between rows are read with them, so they must be zeros.
        for (int i = static_cast<int>(threadIdx.x); i < f.s.sums_at / 16; i += threads)
            reinterpret_cast<uint4*>(shared)[i] = uint4{};
        // Blocks store into each other's shared memory once all of them have begun and cleared theirs.
        if (clustered()) {
            __syncwarp();  // the barrier takes whole warps
            ptx::cluster_barrier();
        }
    }

    __device__ __forceinline__ int team() const { return team_; }
    __device__ __forceinline__ int rows() const { return f_.s.tiles * 8; }
    // The thread's element: a row of the group and a unit of the block.
    __device__ __forceinline__ int row() const {
        return holds_places ? row_ : static_cast<int>(threadIdx.x) / f_.s.units;
    }
    __device__ __forceinline__ int unit() const {
        return holds_places ? unit_ : static_cast<int>(threadIdx.x) % f_.s.units;
    }
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
        if (clustered()) ptx::wait_for_copy_groups<0>();
    }

    // The barrier of the team, in two halves: what threads of the team wrote before arrive is visible to all after
    // wait. Each arrive needs one wait.
    __device__ __forceinline__ void arrive() {
        ++turn_;
        if (f_.s.blocks == 1) return;
        if (clustered()) return ptx::arrive_in_cluster();
        __syncthreads();
        if (threadIdx.x == 0) ptx::add_arrival(arrivals());
    }
    __device__ __forceinline__ void wait() const {
        if (clustered()) return ptx::wait_for_cluster();
        if (f_.s.blocks > 1 && threadIdx.x == 0) {
            const uint32_t all = turn_ * static_cast<uint32_t>(f_.s.blocks);
            while (static_cast<int32_t>(ptx::load_arrivals(arrivals()) - all) < 0) {
            }
        }
        __syncthreads();
    }

    // Publishes this thread's element of the vectors for the gather after the next arrive_with_vectors and wait: where
    // the team is no cluster, in `vectors` [rows, H, padded].
    __device__ __forceinline__ void publish(X* vectors, Wide value) const {
        const int k = first_unit() + unit();
        if (clustered())
            vector(row(), turn_ + 1)[k] = Element<X>::narrow(value);
        else
            vectors[((first_row_ + row()) * f_.heads + head_) * padded_ + k] = Element<X>::narrow(value);
    }
    // Arrives once what the block's threads published has been copied to the other blocks of a cluster. All threads
    // must call it.
    __device__ __forceinline__ void arrive_with_vectors() {
        if (clustered()) send();
        arrive();
    }
    // Multiplies the rows of R of gather `Which` by the vectors, which all blocks of the team published.
    template <int Which>
    __device__ __forceinline__ void gather(const X* vectors) const {
        if (!clustered()) stage(vectors);
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
        const Sum mine = holds_places ? sum_ : sum_of_thread();
        const int block = rows() * padded_, next = f_.s.sum_parts * block;
        const Wide* from = partials(turn_ - 1, 0) + mine.offset + mine.part * block;
        Wide sum = 0;
        constexpr int window = 8;  // loads that are under way together
        for (int b = mine.part; b < f_.s.blocks; b += window * f_.s.sum_parts, from += window * next) {
            Wide loaded[window];
#pragma unroll
            for (int j = 0; j < window; ++j)
                loaded[j] = b + j * f_.s.sum_parts < f_.s.blocks ? __ldcg(from + j * next) : Wide(0);
#pragma unroll
            for (int j = 0; j < window; ++j) sum += loaded[j];
        }
        sums()[threadIdx.x] = sum;
        __syncthreads();
        Wide total = 0;
        if (mine.part == 0)
            for (int p = 0; p < f_.s.sum_parts; ++p) total += sums()[p * elements() + mine.element];
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

    // Whether a thread keeps its row, its unit and its places in the sums of scatter in registers, as computing them
    // takes divisions; f64 has no registers left for them.
    static constexpr bool holds_places = sizeof(Wide) == 4;
    // This thread adds up the parts of `element` that every sum_parts-th block sends, from block `part` on. In threads
    // without an element `part` is past the last block.
    struct Sum {
        int element, part, offset;  // offset of the element in a block's part of `partials`
    };
    __device__ __forceinline__ int elements() const { return rows() * f_.s.units; }
    __device__ __forceinline__ Sum sum_of_thread() const {
        const int thread = static_cast<int>(threadIdx.x), element = thread % elements(), part = thread / elements();
        const int unit = min(first_unit() + element % f_.s.units, padded_ - 1);
        return {element, part < f_.s.sum_parts ? part : f_.s.blocks, element / f_.s.units * padded_ + unit};
    }
    // A thread's tile of the product of scatter: `wide` columns of R from k on, and `deep` rows of the group from n on.
    struct Across {
        int k, n;
    };
    static constexpr int wide = each < 4 ? each : 4, deep = each == 2 ? 8 : 4;
    __device__ __forceinline__ Across across_of(int i) const {
        const int vectors = padded_ / wide;
        return {i % vectors * wide, i / vectors * deep};
    }
    // This thread sends 8 bytes of the block's units, word `word` of row `row`, to block `block` and every
    // side_by_side-th after it. In threads without a word `block` is past the last block.
    struct Copy {
        int row, word, block, side_by_side;
    };
    __device__ __forceinline__ Copy copy_of_thread() const {
        const int words = max(f_.s.units * static_cast<int>(sizeof(X)) / 8, 1), all = words * rows();
        const int thread = static_cast<int>(threadIdx.x), side_by_side = threads / all, word = thread % all % words;
        const bool has =
            thread < side_by_side * all && (first_unit() + word * 8 / static_cast<int>(sizeof(X))) < padded_;
        return {thread % all / words, word, has ? thread / all : f_.s.blocks, side_by_side};
    }

    __device__ __forceinline__ void send() const {
        __syncthreads();
        uint2* const words = reinterpret_cast<uint2*>(vector(copy_.row, turn_ + 1) + first_unit()) + copy_.word;
        const uint2 value = *words;
        for (int b = copy_.block; b < f_.s.blocks; b += copy_.side_by_side)
            if (b != block_) *ptx::pointer_in(words, b) = value;
    }

    __device__ __forceinline__ bool clustered() const { return f_.s.clustered != 0; }
    __device__ __forceinline__ int first_unit() const { return block_ * f_.s.units; }
    __device__ __forceinline__ uint32_t* arrivals() const { return f_.arrivals + team_ * rnn_persistent_line; }
    __device__ __forceinline__ X* stored(int m) const { return reinterpret_cast<X*>(shared_) + m * stride_; }
    __device__ __forceinline__ const X* given(int m) const {
        const int gate = m / f_.s.units, unit = min(first_unit() + m % f_.s.units, padded_ - 1);
        return static_cast<const X*>(f_.weights) +
               ((static_cast<int64_t>(head_) * f_.gates + gate) * padded_ + unit) * padded_;
    }
    __device__ __forceinline__ const X* row_of(int m) const { return m < f_.s.stored ? stored(m) : given(m); }
    __device__ __forceinline__ X* vector(int n, uint32_t turn) const {
        const int set = clustered() ? static_cast<int>(turn & 1) * rows() : 0;
        return reinterpret_cast<X*>(shared_ + f_.s.vectors_at) + (set + n) * stride_;
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
            X* const to = vector(n, turn_);
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
                [&](int at) { return vector(tile.n + at, turn_); }, load,
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
    // The product of scatter.
    __device__ __forceinline__ void multiply_across(int first, int end) const {
        const int all = rows(), count = padded_ / wide * all / deep;
        Across a = holds_places ? across_ : across_of(static_cast<int>(threadIdx.x));
        for (int i = static_cast<int>(threadIdx.x); i < count; i += threads, a = across_of(i)) {
            const int k = a.k, n = a.n;
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
            Wide* const to = partials(turn_, block_) + n * padded_ + k;
#pragma unroll
            for (int j = 0; j < deep; ++j) *reinterpret_cast<Bunch<Wide, wide>*>(to + j * padded_) = sum[j];
        }
    }

    const RnnPersistentParams& f_;
    unsigned char* shared_;
    int padded_, stride_, team_, block_, row_, unit_, head_ = -1;
    int64_t first_row_ = 0;
    uint32_t turn_ = 0;  // how often this block has arrived
    Gather gathers_[2];
    Copy copy_;
    Sum sum_;
    Across across_;
};

}  // namespace flashscan::cuda
