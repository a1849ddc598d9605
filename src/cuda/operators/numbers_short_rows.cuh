// SPDX-License-Identifier: Apache-2.0
// The kernel number_short_rows of "numbers", for short rows with time innermost, each scanned by lanes of one warp.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  2^k lanes own a row from its first step to its last, so that a warp has 32 / 2^k rows. A row is cut into
//            two, four or eight tiles, which follow each other in time. Of a tile each lane holds one aligned vector of
//            16 bytes, and neighbouring lanes hold neighbouring vectors.
// Shared     Rows lie one behind the other, so that a row whose length is no whole number of vectors begins, or ends,
//            inside a vector that it shares with a neighbouring row. Both rows' lanes read that vector, and put the
//            identity in place of the steps that are not theirs. One lane stores it, joined from both rows, if they are
//            in the same warp; otherwise each stores its own steps.
// Passes     1. Every lane loads its vectors of all tiles and combines the elements of each vector. The results are
//               scanned over the row's lanes, tile by tile.
//            2. Tile after tile, every lane walks its steps from its carry and stores them. The carry of the lane that
//               has the tile's last steps enters the next tile.
// Bytes      Every element is read once, but for the vectors that rows share, and written once.
// Bound      Memory: maxima in rows of 256 steps reach 89 % of a copy in bf16 and 92 % in f32 on an H200, rows that
//            share vectors 55 to 75 % (bench/results/tried_operators.md).
// Order      The association is fixed by the operator, the dtype, the length of the rows and a row's skew, which is how
//            many steps of the row before the vector has in which the row begins. The skew depends on the row's number,
//            and another kernel takes arrays that are not aligned, so that BATCH_INVARIANT has this one for integers
//            alone, whose bits do not depend on the association.
// Sync       None beside the warp's own.
// Limits     Rows have as many steps as a vector at least, and 128 vectors at most, or 256 of whole vectors of 16-bit
//            elements. No complex numbers, no logaddexp of f64, no INDEX, no packed sequences.
// Why        number_rows gives a lane 128 bytes of a row, so that most lanes would have no steps of a short one.
#pragma once

#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/scan/segments.cuh"
#include "cuda/operators/numbers_chained.cuh"

namespace flashscan::cuda {

// The bits of word `word` of a vector that belong to byte `byte` of the vector or to a later one.
__device__ __forceinline__ uint32_t mask_from(int byte, int word) {
    return __funnelshift_lc(0, ~0U, max(8 * byte - 32 * word, 0));  // a shift by 32 and more gives 0
}
// A vector whose bytes before number `border` are those of `before`, and the others those of `behind`.
template <typename Tile>
__device__ __forceinline__ Tile joined(const Tile& before, const Tile& behind, int border) {
    Tile tile;
#pragma unroll
    for (int i = 0; i < Tile::count; ++i) {
        const uint32_t mask = mask_from(border, i);
        tile.word[i] = (behind.word[i] & mask) | (before.word[i] & ~mask);
    }
    return tile;
}

// Stores the first `bytes` bytes of a vector, or the last ones with `last`, in pieces of 8, 4, 2 and 1 of them, none of
// which is smaller than an element. For example, 14 bytes are stored as pieces of 8, 4 and 2.
template <int Size, typename Tile>
__device__ __forceinline__ void store_part(const Tile& tile, char* to, int bytes, bool last) {
    const auto word = [&](int i) {
        const uint32_t low = (i & 1) != 0 ? tile.word[1] : tile.word[0];
        const uint32_t high = (i & 1) != 0 ? tile.word[3] : tile.word[2];
        return (i & 2) != 0 ? high : low;
    };
#pragma unroll
    for (int piece = 8; piece >= Size; piece /= 2) {
        if ((bytes & piece) == 0) continue;
        const int before = bytes & -2 * piece, place = last ? 16 - piece - before : before;
        const uint32_t bits[2] = {word(place / 4) >> place % 4 * 8, word(place / 4 + 1)};
        if (piece == 8)
            store_words<2>(bits, to + place);
        else if (piece == 4)
            store_words<1>(bits, to + place);
        else if (piece == 2)
            *reinterpret_cast<uint16_t*>(to + place) = static_cast<uint16_t>(bits[0]);
        else
            *reinterpret_cast<uint8_t*>(to + place) = static_cast<uint8_t>(bits[0]);
    }
}

// A lane's vectors of its row in memory. The lane's vector of tile k begins with the row's step number step(k), which
// is negative where the vector begins with steps of the row before. `Shared` tells that rows share vectors.
template <typename X, bool Shared>
struct ShortRow {
    using Shape = TileShape<X, X, Access::time_vectors, false, 32>;
    using Tile = Steps<X, Shape>;
    static constexpr int L = Shape::L, size = static_cast<int>(sizeof(X));
    static_assert(L * size == 16);

    const ShortNumberParams& p;
    const Place& at;
    int64_t row;
    int step0, stride;  // of step(k)
    int64_t offset0;    // of offset(k)
    int vectors;        // that hold steps of the row

    __device__ __forceinline__ ShortRow(const ShortNumberParams& params, const Place& place, int64_t number)
        : p(params), at(place), row(number) {
        const int skew = Shared ? static_cast<int>(static_cast<uint32_t>(row) * static_cast<uint32_t>(p.time) % L) : 0;
        vectors = (skew + p.time + L - 1) / L;
        step0 = (p.down != 0 ? vectors - 1 - at.segment : at.segment) * L - skew;
        stride = (p.down != 0 ? -L : L) * at.segments();
        offset0 = (row * p.time + step0) * size;
        if (!exists()) step0 = -(1 << 20);  // has() is then false for every tile
    }
    __device__ __forceinline__ bool exists() const { return row < p.rows; }

    __device__ __forceinline__ int step(int k) const { return step0 + k * stride; }
    __device__ __forceinline__ bool has(int k) const {
        constexpr int before = Shared ? L - 1 : 0;  // of the vector's steps may be the row before's
        return static_cast<uint32_t>(step(k) + before) < static_cast<uint32_t>(p.time + before);
    }
    // The vector's bytes that are the row's: from number first(k) to the one before end(k).
    __device__ __forceinline__ int first(int k) const { return max(-step(k), 0) * size; }
    __device__ __forceinline__ int end(int k) const { return min(p.time - step(k), L) * size; }
    // The vector's place in the array.
    __device__ __forceinline__ int64_t offset(int k) const { return offset0 + k * stride * size; }
    // Whether the array ends inside the vector.
    __device__ __forceinline__ bool is_cut(int k) const { return Shared && row == p.rows - 1 && step(k) + L > p.time; }

    // Loads the vectors of all tiles; elements that are not steps of the row are those of `absent`.
    template <int Tiles>
    __device__ __forceinline__ void load(const Tile& absent, Tile (&tile)[Tiles]) const {
#pragma unroll
        for (int k = 0; k < Tiles; ++k) {
            tile[k] = absent;
            if (has(k) && !is_cut(k)) load_words<4, true>(p.input + offset(k), tile[k].word);
        }
        if constexpr (Shared) {
#pragma unroll
            for (int k = 0; k < Tiles; ++k) {
#pragma unroll
                for (int i = 0; i < Tile::count; ++i) {
                    const uint32_t mask = mask_from(first(k), i) & ~mask_from(end(k), i);
                    tile[k].word[i] = (tile[k].word[i] & mask) | (absent.word[i] & ~mask);
                }
            }
            if (row != p.rows - 1) return;
#pragma unroll
            for (int k = 0; k < Tiles; ++k) {
                if (!has(k) || !is_cut(k)) continue;
#pragma unroll
                for (int i = 0; i < L; ++i)
                    if (i * size < end(k))
                        tile[k].set(i, 0, Element<X>::widen(reinterpret_cast<const X*>(p.input + offset(k))[i]));
            }
        }
    }

    // Stores the vector of tile k. `tile0` is the lane's vector of tile 0, as it is stored.
    __device__ __forceinline__ void store(int k, const Tile& tile, const Tile& tile0) const {
        char* const to = p.output + offset(k);
        if constexpr (Shared) {
            // The row after this one, in the order of the scan, begins in the vector in which this one ends.
            const int next = p.down != 0 ? -1 : 1;
            Tile other;
#pragma unroll
            for (int i = 0; i < Tile::count; ++i)
                other.word[i] = __shfl_sync(0xffffffffU, tile0.word[i], lane_of(next) & 31);
            const bool ends = p.down != 0 ? step(k) <= 0 : step(k) + L >= p.time;
            if (!has(k)) return;
            if (first(k) == 0 && end(k) == 16)
                store_words<4>(tile.word, to);
            else if (!has_row(ends ? next : -next))
                store_part<size>(tile, to, end(k) - first(k), first(k) > 0);
            else if (ends)
                store_words<4>((p.down != 0 ? joined(other, tile, first(k)) : joined(tile, other, end(k))).word, to);
        } else {
            if (has(k)) store_words<4>(tile.word, to);
        }
    }
    // The lane that has the first vector of a neighbouring row in the order of the scan; outside of 0 to 31 if the warp
    // does not have that row.
    __device__ __forceinline__ int lane_of(int neighbour) const {
        return at.lane - at.segment + neighbour * at.segments();
    }
    __device__ __forceinline__ bool has_row(int neighbour) const {
        return lane_of(neighbour) >= 0 && lane_of(neighbour) < 32 && row + neighbour < p.rows;
    }
};

// Blocks per multiprocessor that registers are limited to, or 0. Other types with shared vectors would spill.
template <typename X, bool Shared>
constexpr int short_rows_resident = 0;
template <>
constexpr int short_rows_resident<float, true> = 8;

template <typename X, typename Operator, int Tiles, bool Shared>
__global__ void __launch_bounds__(32 * short_number_warps, short_rows_resident<X, Shared>)
    number_short_rows(const __grid_constant__ ShortNumberParams p) {
    using Row = ShortRow<X, Shared>;
    using Tile = typename Row::Tile;
    using Monoid = NumberMonoid<X, Operator>;
    using Wide = typename Monoid::Wide;
    using Numbers = LaneNumbers<X, typename Row::Shape, false>;
    constexpr int L = Row::L;
    Place at{};
    at.lane = ptx::thread_index() & 31;
    at.log2_rows = 5 - p.log2_lanes;
    at.segment = at.lane & (at.segments() - 1);
    const int64_t warp = static_cast<int64_t>(blockIdx.x) * short_number_warps + ptx::thread_index() / 32;
    const Row row(p, at, (warp << at.log2_rows) + (at.lane >> p.log2_lanes));
    const Segments<Monoid, typename Row::Shape, false> lanes{at};

    // The element of the lane's vector that is number i in the order of the scan is that at this place, or the mirrored
    // one.
    const auto turned = [&](Tile& tile) {
        if (p.down == 0) return;
#pragma unroll
        for (int i = 0; i < L / 2; ++i) {
            const Wide first = tile.get(i, 0), last = tile.get(L - 1 - i, 0);
            tile.set(i, 0, last);
            tile.set(L - 1 - i, 0, first);
        }
    };

    Tile absent, tile[Tiles];
#pragma unroll
    for (int i = 0; i < L; ++i) absent.set(i, 0, Monoid::identity());
    row.load(absent, tile);
    Wide carry = row.exists() && p.state_in != nullptr ? static_cast<const Wide*>(p.state_in)[row.row]
                                                       : Monoid::start_of_row(p.exclusive != 0);
    Wide through[Tiles];
#pragma unroll
    for (int k = 0; k < Tiles; ++k) {
        turned(tile[k]);
        through[k] = combine_all_numbers<X, Operator>(Numbers{tile[k]}, 0);
    }
    lanes.scan(through);
#pragma unroll
    for (int k = 0; k < Tiles; ++k) {
        Wide own[1] = {lanes.enter(through[k], carry)};
        combine_tile<Operator>(Numbers{tile[k]}, own, p.exclusive != 0);
        turned(tile[k]);
        if (p.output != nullptr) row.store(k, tile[k], tile[0]);
        // The carry is that of the last lane that has steps of the row: the lanes behind it come to theirs by another
        // association. Of the first tile every lane has some.
        const int last = k == 0 ? at.segments() - 1 : min(row.vectors - k * at.segments(), at.segments()) - 1;
        const Wide left = shuffle(own[0], at.lane - at.segment + max(last, 0));
        if (last >= 0) carry = left;
    }
    if (!row.exists() || at.segment != 0) return;
    if (p.state_out != nullptr) static_cast<Wide*>(p.state_out)[row.row] = carry;
    if (p.reduced != nullptr) store_number<X>(static_cast<char*>(p.reduced) + row.row * sizeof(X), carry, false);
}

}  // namespace flashscan::cuda
