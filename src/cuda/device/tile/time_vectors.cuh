// SPDX-License-Identifier: Apache-2.0
// Tiles with time innermost as vectors of 16 bytes. A warp loads and stores coalesced vectors, while each lane needs
// contiguous steps, so the tile is transposed through the warp's buffer in shared memory.
#pragma once

#include "cuda/device/tile/memory_words.cuh"

namespace flashscan::cuda {

// A lane's steps as 16-byte vectors in the warp's buffer. Lanes read theirs without bank conflicts, because vectors are
// swizzled or, where padded, because lanes lie an odd number of vectors apart.
template <typename T, typename Shape, bool Padded>
struct LaneVectors {
    using Tile = Steps<T, Shape>;
    static constexpr int L = Tile::L, count = L * static_cast<int>(sizeof(T)) / 16;
    static constexpr int stride = 16 * (Padded ? count | 1 : count);  // bytes from one lane to the next
    static_assert(count >= 1 && count <= 8);

    // The offset of a lane's vector in the buffer.
    static __device__ __forceinline__ int place(int lane, int vector) {
        constexpr int shift = count == 8 ? 0 : count == 4 ? 1 : 2;
        return lane * stride + (Padded ? vector : vector ^ ((lane >> shift) & (count - 1))) * 16;
    }
    static __device__ __forceinline__ void read(Tile& tile, const Place& at, const char* buffer) {
#pragma unroll
        for (int n = 0; n < count; ++n) load_words<4>(buffer + place(at.lane, n), tile.word + 4 * n);
    }
    static __device__ __forceinline__ void write(const Tile& tile, const Place& at, char* buffer) {
#pragma unroll
        for (int n = 0; n < count; ++n) store_words<4>(tile.word + 4 * n, buffer + place(at.lane, n));
    }
    // Steps past the lane's last become zero bits.
    static __device__ __forceinline__ void clear_rest(Tile& tile, const Place& at) {
        if (at.steps >= L) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (i >= at.steps) tile.set(i, 0, typename Tile::Wide{});
    }
};

// TimeVectors tells where vectors lie in memory and in a buffer without padding.
template <typename T, typename Shape>
struct TimeVectors {
    using Tile = Steps<T, Shape>;
    using Vectors = LaneVectors<T, Shape, false>;
    static constexpr int size = static_cast<int>(sizeof(T)), L = Tile::L;
    static constexpr int vectors = Vectors::count, vector_steps = 16 / size;
    static constexpr int buffer_bytes = 32 * L * size;

    static __device__ __forceinline__ char* origin(const View& view, const Place& at) {
        return view.data + at.batch * view.batch + at.warp_row * view.row + at.warp_t0 * view.time;
    }
    // The offset in the buffer of the lane's j-th vector, which is number 32 j + lane of the warp's.
    static __device__ __forceinline__ int offset_of(const Place& at, int j) {
        const int vector = j * 32 + at.lane;
        return Vectors::place(vector / vectors, vector % vectors);
    }
};

}  // namespace flashscan::cuda
