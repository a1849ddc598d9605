// SPDX-License-Identifier: Apache-2.0
// The kernel of "numbers" for short rows with time innermost, each of them scanned by lanes of one warp.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  2^k lanes own a row from its first step to its last, so that a warp has 32 / 2^k rows. A row is cut into
//            two, four or eight tiles, which follow each other in time. Of a tile each lane holds one vector of 16
//            bytes, and neighbouring lanes hold neighbouring vectors.
// Passes     1. Every lane loads its vectors of all tiles and combines the elements of each vector; what they combine to
//               is scanned over the row's lanes, tile by tile.
//            2. Tile after tile, every lane walks its steps from its carry and stores them. The last lane's carry
//               enters the next tile.
// Bytes      Every element is read once and written once.
// Order      The association is fixed by the length of the rows and by the dtype, but arrays that are not aligned are
//            taken by another kernel, so that BATCH_INVARIANT rules this one out.
// Sync       None beside the warp's own.
// Limits     Rows that fill their lanes, of 2, 4, 8 .. 128 aligned vectors, in 16 bits also 256; no integers, no complex
//            numbers, no logaddexp of f64, no INDEX, no BATCH_INVARIANT, no packed sequences. The carry that a row starts
//            from is the operator's identity, so that the sum of -0 alone is 0.
// Why        number_rows gives a lane 128 bytes of a row, so that most lanes would have no steps of a short one.
#pragma once

#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/scan/segments.cuh"
#include "cuda/operators/numbers_chained.cuh"

namespace flashscan::cuda {

template <typename X, typename Operator, int Tiles>
__global__ void __launch_bounds__(32 * short_number_warps)
    number_short_rows(const __grid_constant__ ShortNumberParams p) {
    using Shape = TileShape<X, X, Access::time_vectors, false, 32>;
    using Monoid = NumberMonoid<X, Operator>;
    using Wide = typename Monoid::Wide;
    constexpr int L = Shape::L;
    static_assert(L * sizeof(X) == 16);
    Place at{};
    at.lane = ptx::thread_index() & 31;
    at.log2_rows = 5 - p.log2_lanes;
    at.segment = at.lane & (at.segments() - 1);
    const int64_t warp = static_cast<int64_t>(blockIdx.x) * short_number_warps + ptx::thread_index() / 32;
    const int64_t row = (warp << at.log2_rows) + (at.lane >> p.log2_lanes);
    const Segments<Monoid, Shape, false> lanes{at};

    // The place in memory of the lane's vector of tile k, in vectors of the row; negative where there is none.
    const auto place = [&](int k) {
        const int turn = k * at.segments() + at.segment;
        return row >= p.rows || turn >= p.vectors ? -1 : p.down != 0 ? p.vectors - 1 - turn : turn;
    };
    // The element of the lane's vector that is number i in the order of the scan is that at this place, or the mirrored
    // one.
    const auto turned = [&](Steps<X, Shape>& tile) {
        if (p.down == 0) return;
#pragma unroll
        for (int i = 0; i < L / 2; ++i) {
            const Wide first = tile.get(i, 0), last = tile.get(L - 1 - i, 0);
            tile.set(i, 0, last);
            tile.set(L - 1 - i, 0, first);
        }
    };

    Steps<X, Shape> tile[Tiles];
#pragma unroll
    for (int k = 0; k < Tiles; ++k) {
#pragma unroll
        for (int i = 0; i < L; ++i) tile[k].set(i, 0, Monoid::identity());
        if (place(k) >= 0) load_words<4, true>(p.input.data + row * p.input.row + place(k) * 16, tile[k].word);
    }
    Wide carry = row < p.rows && p.state_in != nullptr ? static_cast<const Wide*>(p.state_in)[row] : Monoid::identity();
    Wide through[Tiles];
#pragma unroll
    for (int k = 0; k < Tiles; ++k) {
        turned(tile[k]);
        through[k] = combine_all_numbers<Operator, L, Wide>([&](int i) { return tile[k].get(i, 0); });
    }
    lanes.scan(through);
#pragma unroll
    for (int k = 0; k < Tiles; ++k) {
        RunningNumber<Operator, Wide> running;
        Wide own = lanes.enter(through[k], carry);
        running.begin(own);
#pragma unroll
        for (int i = 0; i < L; ++i) {
            running.add(tile[k].get(i, 0));
            const Wide next = running.value();
            tile[k].set(i, 0, p.exclusive != 0 ? own : next);
            own = next;
        }
        turned(tile[k]);
        if (p.output.data != nullptr && place(k) >= 0)
            store_words<4>(tile[k].word, p.output.data + row * p.output.row + place(k) * 16);
        carry = shuffle(own, lanes.last_lane());
    }
    if (row >= p.rows || at.segment != 0) return;
    if (p.state_out != nullptr) static_cast<Wide*>(p.state_out)[row] = carry;
    if (p.reduced != nullptr) store_number<X>(static_cast<char*>(p.reduced) + row * sizeof(X), carry, false);
}

}  // namespace flashscan::cuda
