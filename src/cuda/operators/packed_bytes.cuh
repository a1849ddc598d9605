// SPDX-License-Identifier: Apache-2.0
// The 8-bit integers of a lane's tile, combined four at a time.
//
// `and`, `or`, `xor`   One instruction combines the four bytes of two words.
// Sums modulo 256,     The bytes of a word are taken apart into two words of two 16-bit halves each: `even` has bytes 0
// minima, maxima       and 2, `odd` bytes 1 and 3. One instruction then combines two numbers. Sums may pass 255 in a
//                      half; a tile has so few steps that none reaches 2^16, and only the lower bytes are put back.
#pragma once

#include "cuda/device/tile/steps.cuh"
#include "math/operators.h"

namespace flashscan::cuda {

// Combines the bytes of two words, each with its counterpart.
__device__ __forceinline__ uint32_t combine_bytes(combine::And, uint32_t a, uint32_t b) { return a & b; }
__device__ __forceinline__ uint32_t combine_bytes(combine::Or, uint32_t a, uint32_t b) { return a | b; }
__device__ __forceinline__ uint32_t combine_bytes(combine::Xor, uint32_t a, uint32_t b) { return a ^ b; }

// Combines the 16-bit halves of two words, each with its counterpart.
__device__ __forceinline__ uint32_t combine_halves(combine::Add, uint32_t a, uint32_t b) { return a + b; }
__device__ __forceinline__ uint32_t combine_halves(combine::Extremum<true>, uint32_t a, uint32_t b) {
    return __vmaxu2(a, b);
}
__device__ __forceinline__ uint32_t combine_halves(combine::Extremum<false>, uint32_t a, uint32_t b) {
    return __vminu2(a, b);
}

template <typename Operator>
constexpr bool combines_bytes = requires {
    combine_bytes(Operator{}, 0U, 0U);
};
// Whether numbers of type X are combined four at a time.
template <typename X, typename Operator>
constexpr bool packs_bytes = sizeof(X) == 1 &&
                             (combines_bytes<Operator> || requires { combine_halves(Operator{}, 0U, 0U); });

// In a tile with time innermost the bytes of a word are four steps of one row, otherwise a step of four rows.
template <typename Operator, typename Shape, bool Down>
struct PackedBytes {
    using Tile = Steps<uint8_t, Shape>;
    static constexpr int count = Tile::count, V = Shape::V;
    static constexpr bool whole = combines_bytes<Operator>, sums = std::is_same_v<Operator, combine::Add>;
    static constexpr uint32_t identity = combine::Identity<Operator, uint8_t>::get();
    static_assert(V == 1 || (V == 4 && !Down));
    static_assert((V == 1 ? 6 : Shape::L + 1) * 255 < 1 << 16);  // sums in halves, with the carry

    // Returns what the numbers of row v combine to.
    static __device__ __forceinline__ uint8_t total(const Tile& tile, int v) {
        if constexpr (sums && V == 1) {
            uint32_t sum = 0;
#pragma unroll
            for (int i = 0; i < count; ++i) sum = __dp4a(tile.word[i], 0x01010101U, sum);
            return static_cast<uint8_t>(sum);
        } else {
            uint32_t all = part_of(tile.word[0], v);
#pragma unroll
            for (int i = 1; i < count; ++i) all = combined(all, part_of(tile.word[i], v));
            if (V == 1) all = combined(all, all >> 16);
            if (V == 1 && whole) all = combined(all, all >> 8);
            return static_cast<uint8_t>(V == 1 ? all : whole ? all >> 8 * v : v < 2 ? all : all >> 16);
        }
    }

    // Replaces the tile's bytes by what they combine to one after the other, from the carry, which becomes the one
    // after them.
    static __device__ __forceinline__ void scan(Tile& tile, uint8_t (&carry)[V]) {
        if constexpr (V == 1) {
            uint32_t before = carry[0] * (whole ? 0x01010101U : 0x10001U);  // the carry in every byte or half
#pragma unroll
            for (int k = 0; k < count; ++k) {
                uint32_t& word = tile.word[Down ? count - 1 - k : k];
                if constexpr (whole)
                    scan_whole(word, before);
                else
                    scan_halves(word, before);
            }
            carry[0] = static_cast<uint8_t>(before);
        } else {
            const uint32_t first = carry[0] | carry[1] << 8 | carry[2] << 16 | static_cast<uint32_t>(carry[3]) << 24;
            uint32_t evens = whole ? first : even(first), odds = odd(first), last = 0;
#pragma unroll
            for (int i = 0; i < count; ++i) {
                uint32_t& word = tile.word[i];
                evens = combined(evens, whole ? word : even(word));
                odds = combined(odds, odd(word));
                word = last = whole ? evens : joined(evens, odds);
            }
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = static_cast<uint8_t>(last >> 8 * v);
        }
    }

  private:
    static __device__ __forceinline__ uint32_t even(uint32_t word) { return __byte_perm(word, 0, 0x4240); }
    static __device__ __forceinline__ uint32_t odd(uint32_t word) { return __byte_perm(word, 0, 0x4341); }
    static __device__ __forceinline__ uint32_t joined(uint32_t even, uint32_t odd) {
        return __byte_perm(even, odd, 0x6240);
    }
    static __device__ __forceinline__ uint32_t combined(uint32_t a, uint32_t b) {
        if constexpr (whole)
            return combine_bytes(Operator{}, a, b);
        else
            return combine_halves(Operator{}, a, b);
    }
    // The part of a word, with its bytes whole or taken apart, in which row v has numbers.
    static __device__ __forceinline__ uint32_t part_of(uint32_t word, int v) {
        if (whole) return word;
        if (V == 1) return combined(even(word), odd(word));
        return v % 2 == 0 ? even(word) : odd(word);
    }

    // The four steps of a word in the order of the scan, which goes from the lowest byte to the highest, or Down from
    // the highest to the lowest. `before` holds the carry into them, then the one after them.
    static __device__ __forceinline__ void scan_whole(uint32_t& word, uint32_t& before) {
        word = combined(word, __byte_perm(word, identity, Down ? 0x4321 : 0x2104));
        word = combined(combined(word, __byte_perm(word, identity * 0x101U, Down ? 0x5432 : 0x1054)), before);
        before = __byte_perm(word, 0, Down ? 0x0000 : 0x3333);
    }
    static __device__ __forceinline__ void scan_halves(uint32_t& word, uint32_t& before) {
        // A pair is an even and an odd byte, of which `first` has those that come first.
        const uint32_t first = Down ? odd(word) : even(word), second = Down ? even(word) : odd(word);
        const uint32_t pairs = combined(first, second);
        uint32_t firsts, seconds;  // results
        if constexpr (sums) {
            seconds = Down ? pairs + (pairs >> 16) + before : pairs * 0x10001U + before;
            firsts = seconds - second;
        } else {
            // The pair that comes first, in the half of the other.
            const uint32_t earlier = __byte_perm(pairs, identity, Down ? 0x5432 : 0x1054);
            seconds = combined(combined(before, pairs), earlier);
            // The carry, or the result of the first pair, comes before each of `first`.
            firsts = combined(__byte_perm(before, seconds, Down ? 0x1076 : 0x5410), first);
        }
        word = Down ? joined(seconds, firsts) : joined(firsts, seconds);
        before = __byte_perm(seconds, 0, Down ? 0x4040 : 0x4242);  // what passed 255 is dropped
    }
};

}  // namespace flashscan::cuda
