// SPDX-License-Identifier: Apache-2.0
// Copies of tiles of pairs of rows, channels innermost, whose steps may begin at any element, not only at whole pairs.
//
// A step is odd where it begins in the middle of an aligned pair. Lanes load aligned pairs. In odd steps a lane's rows
// are the upper half of its pair and the lower half of the next lane's pair, which it receives by a shuffle; so a
// warp's last lane has no rows of its own. Stores shuffle the halves back and write only rows of the warp's. A pair of
// which only one row exists is read as a whole, unless it could reach beyond the tensor: at its first and last step.
#pragma once

#include "cuda/device/tile/copies.cuh"

namespace flashscan::cuda {

// Which rows of its pairs a lane moves, in odd and in other steps; it is the same for all tensors.
struct PairPart {
    enum Rows {
        none,
        lower,
        upper,
        both
    };
    // [odd]: which rows of the lane's pair exist in the tensor, and which are the warp's to store.
    Rows existing_rows[2], stored_rows[2];
    // Whether all steps of the warp's tile and all rows of its pairs exist, and no step of it, or after it, is a
    // tensor's first or last: states are loaded from one step later.
    bool whole;

    static __device__ __forceinline__ Rows rows_of(int low, int count) {
        return static_cast<Rows>((low >= 0 && low < count ? lower : none) | (low + 1 < count ? upper : none));
    }
    static __device__ __forceinline__ PairPart of(const Place& at, int64_t rows, int64_t time, int steps) {
        const int left = static_cast<int>(min(rows - at.warp_row, int64_t{64}));
        PairPart part;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            part.existing_rows[odd] = rows_of(2 * at.lane - odd, left);
            part.stored_rows[odd] = rows_of(2 * at.lane - odd, at.warp_rows);
        }
        part.whole = left == 64 && at.warp_steps == steps && at.t0 > 0 && at.t0 + steps + 1 < time;
        return part;
    }
    // These select by a condition, since an index would move the arrays out of registers.
    __device__ __forceinline__ Rows exist(bool odd) const { return odd ? existing_rows[1] : existing_rows[0]; }
    __device__ __forceinline__ Rows stored(bool odd) const { return odd ? stored_rows[1] : stored_rows[0]; }
};

template <typename T, typename Shape>
struct SkewedPairs {
    using Tile = Steps<T, Shape>;
    using Part = PairPart;
    static constexpr int size = static_cast<int>(sizeof(T)), words = Tile::count / Tile::L, L = Tile::L;
    static_assert(2 * words == size);

    // Every second step of the tile. Either all of them are odd or none is.
    struct Turns {
        char* pair;  // the lane's pair in the first of these steps
        int64_t stride;
        bool odd;
    };
    static __device__ __forceinline__ Turns turns_of(const View& view, const Place& at, int64_t first) {
        char* const rows = view.data + at.batch * view.batch + at.row * view.row + (at.t0 + first) * view.time;
        const int skew = static_cast<int>(reinterpret_cast<uintptr_t>(rows) % (2 * size));
        return {rows - skew, 2 * view.time, skew != 0};
    }

    // Loads the steps moved later by `shift`; those that do not exist become zero bits. Whole tells that part.whole is
    // true. The caller branches on it once for all tensors, as the loads of one tensor would otherwise wait for those
    // of another.
    template <bool Whole>
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, const Part& part, int shift,
                                                 int64_t time, Tile& tile) {
        const int64_t begin = at.t0 + shift;
        const int last = static_cast<int>(min(int64_t{at.warp_steps}, time - begin));
        // Whether the tile's step i is the first or the last of the tensor.
        const auto is_edge = [&](int i) { return (i == 0 && begin == 0) || begin + i == time - 1; };
#pragma unroll
        for (int turn = 0; turn < 2; ++turn) {
            const Turns turns = turns_of(view, at, shift + turn);
            const char* from = turns.pair;
            const typename Part::Rows exist = part.exist(turns.odd);
#pragma unroll
            for (int i = turn; i < L; i += 2, from += turns.stride) {
                uint32_t* const to = tile.word + i * words;
                if constexpr (Whole) {
                    load_words<words>(from, to);
                } else {
#pragma unroll
                    for (int k = 0; k < words; ++k) to[k] = 0;
                    const bool inside = i < last && exist != Part::none;
                    if (inside && (exist == Part::both || !is_edge(i))) load_words<words>(from, to);
                }
            }
        }
        if constexpr (!Whole)
            if (begin == 0 || begin + L >= time) fetch_edges(view, at, part, shift, last, is_edge, tile);
    }

    // Gives each lane its own rows in odd steps.
    static __device__ __forceinline__ void arrange(const View& view, const Place& at, int shift, Tile& tile) {
#pragma unroll
        for (int turn = 0; turn < 2; ++turn) {
            if (!turns_of(view, at, shift + turn).odd) continue;
#pragma unroll
            for (int i = turn; i < L; i += 2) {
                uint32_t* const pair = tile.word + i * words;
                const uint32_t next = __shfl_down_sync(0xffffffffU, pair[0], 1);
                if constexpr (words == 1) {
                    pair[0] = across(pair[0], next);
                } else {
                    pair[0] = pair[1];
                    pair[1] = next;
                }
            }
        }
    }

    static __device__ __forceinline__ void store(Tile tile, const View& view, const Place& at, const Part& part) {
#pragma unroll
        for (int turn = 0; turn < 2; ++turn) {
            Turns turns = turns_of(view, at, turn);
            const typename Part::Rows stored = part.stored(turns.odd);
            // A row that is stored alone is in the lower half of the lane's word.
            if (stored == Part::upper) turns.pair += size;
            if (turns.odd) give_back(turn, stored == Part::upper, tile);
            if (at.warp_steps == L)
                store_turns<true>(tile, turns, at, stored, turn);
            else
                store_turns<false>(tile, turns, at, stored, turn);
        }
    }

  private:
    // Loads single rows of the tensor's first and last steps, where only one row of a pair exists.
    template <typename IsEdge>
    static __device__ __forceinline__ void fetch_edges(const View& view, const Place& at, const Part& part, int shift,
                                                       int last, IsEdge&& is_edge, Tile& tile) {
#pragma unroll 1
        for (int i = 0; i < last; ++i) {
            if (!is_edge(i)) continue;
            const Turns turns = turns_of(view, at, shift + i);
            const typename Part::Rows exist = part.exist(turns.odd);
            if (exist == Part::none || exist == Part::both) continue;
            const int half = exist == Part::upper ? 1 : 0;
            uint32_t one;
            load_element<T>(turns.pair + half * size, &one);
            if (words == 1) one <<= 16 * half;
#pragma unroll
            for (int j = 0; j < L; ++j)
#pragma unroll
                for (int k = 0; k < words; ++k)
                    if (j == i && k == (words - 1) * half) tile.word[j * words + k] = one;
        }
    }

    // Undoes `arrange`, except for a lane that stores its first row `alone`.
    static __device__ __forceinline__ void give_back(int turn, bool alone, Tile& tile) {
#pragma unroll
        for (int i = turn; i < L; i += 2) {
            uint32_t* const pair = tile.word + i * words;
            const uint32_t before = __shfl_up_sync(0xffffffffU, pair[words - 1], 1);
            if constexpr (words == 1) {
                if (!alone) pair[0] = across(before, pair[0]);
            } else {
                if (!alone) pair[1] = pair[0];
                if (!alone) pair[0] = before;
            }
        }
    }

    template <bool Whole>
    static __device__ __forceinline__ void store_turns(const Tile& tile, const Turns& turns, const Place& at,
                                                       typename Part::Rows stored, int turn) {
        char* to = turns.pair;
#pragma unroll
        for (int i = turn; i < L; i += 2, to += turns.stride) {
            if (!Whole && i >= at.warp_steps) break;
            const uint32_t* const pair = tile.word + i * words;
            if (stored == Part::both) store_words<words>(pair, to);
            if (stored == Part::lower || stored == Part::upper) store_element<T>(pair, to);
        }
    }
};

}  // namespace flashscan::cuda
