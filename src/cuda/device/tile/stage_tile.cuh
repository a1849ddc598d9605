// SPDX-License-Identifier: Apache-2.0
// Copies between a lane's registers and a warp's tile in shared memory, channels innermost, which the bulk copy engine
// (TMA) loads and stores.
#pragma once

#include "cuda/device/tile/copies.cuh"

namespace flashscan::cuda {

// In the tile, steps follow each other, and a step is the packs of the warp's rows side by side.
template <typename T, typename Shape>
struct StageTile {
    using Tile = Steps<T, Shape>;
    static constexpr int words = Tile::count / Tile::L;  // 32-bit words of a lane's step

    static __device__ __forceinline__ char* lane_of(char* tile, const Place& at) {
        return tile + (at.segment * Tile::L << at.log2_rows | at.pack) * words * 4;
    }
    static __device__ __forceinline__ void load(char* tile, const Place& at, Tile& to) {
        const char* from = lane_of(tile, at);
#pragma unroll
        for (int i = 0; i < Tile::L; ++i, from += words * 4 << at.log2_rows)
            load_words<words>(from, to.word + i * words);
    }
    static __device__ __forceinline__ void store(const Tile& from, const Place& at, char* tile) {
        char* to = lane_of(tile, at);
#pragma unroll
        for (int i = 0; i < Tile::L; ++i, to += words * 4 << at.log2_rows)
            store_words<words>(from.word + i * words, to);
    }
};

}  // namespace flashscan::cuda
