// SPDX-License-Identifier: Apache-2.0
// Sums of the 8-bit integers of a lane's tile, four at a time, modulo 256.
//
// The bytes of a word are taken apart into two words of two 16-bit sums each: `even` has bytes 0 and 2, `odd` bytes 1
// and 3. A tile has so few steps that no such sum reaches 2^16.
#pragma once

#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// In a tile with time innermost the bytes of a word are four steps of one row, otherwise a step of four rows.
template <typename Shape, bool Down>
struct ByteSums {
    using Tile = Steps<uint8_t, Shape>;
    static constexpr int count = Tile::count, V = Shape::V;
    static_assert(V == 1 || (V == 4 && !Down));
    static_assert((V == 1 ? 5 : Shape::L + 1) * 255 < 1 << 16);  // with the carry

    static __device__ __forceinline__ uint32_t even(uint32_t word) { return __byte_perm(word, 0, 0x4240); }
    static __device__ __forceinline__ uint32_t odd(uint32_t word) { return __byte_perm(word, 0, 0x4341); }
    static __device__ __forceinline__ uint32_t joined(uint32_t even, uint32_t odd) {
        return __byte_perm(even, odd, 0x6240);
    }

    // The sum of row v.
    static __device__ __forceinline__ uint8_t total(const Tile& tile, int v) {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            if constexpr (V == 1)
                sum = __dp4a(tile.word[i], 0x01010101U, sum);
            else
                sum += v % 2 == 0 ? even(tile.word[i]) : odd(tile.word[i]);
        }
        return static_cast<uint8_t>(v < 2 ? sum : sum >> 16);
    }

    // Replaces the tile's bytes by their prefix sums from the carry, which becomes the one after them.
    static __device__ __forceinline__ void scan(Tile& tile, uint8_t (&carry)[V]) {
        if constexpr (V == 1) {
            uint32_t before = carry[0] * 0x10001U;  // the carry in both halves
#pragma unroll
            for (int k = 0; k < count; ++k) {
                uint32_t& word = tile.word[Down ? count - 1 - k : k];
                const uint32_t pairs = even(word) + odd(word);
                uint32_t evens, odds;
                if constexpr (Down) {
                    evens = pairs + (pairs >> 16) + before;
                    odds = evens - even(word);
                    before = __byte_perm(evens, 0, 0x4040);
                } else {
                    odds = pairs * 0x10001U + before;
                    evens = odds - odd(word);
                    before = __byte_perm(odds, 0, 0x4242);
                }
                word = joined(evens, odds);
            }
            carry[0] = static_cast<uint8_t>(before);
        } else {
            uint32_t evens = carry[0] | carry[2] << 16, odds = carry[1] | carry[3] << 16;
#pragma unroll
            for (int i = 0; i < count; ++i) {
                evens += even(tile.word[i]);
                odds += odd(tile.word[i]);
                tile.word[i] = joined(evens, odds);
            }
            const uint32_t last = joined(evens, odds);
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = static_cast<uint8_t>(last >> 8 * v);
        }
    }
};

}  // namespace flashscan::cuda
