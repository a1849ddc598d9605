// SPDX-License-Identifier: Apache-2.0
// Copies of tiles with time innermost, aligned to 16 bytes. A warp loads and stores coalesced vectors, while each lane
// needs contiguous steps, so the tile is transposed through the warp's buffer in shared memory.
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

template <typename T, typename Shape>
struct TimeVectors {
    using Tile = Steps<T, Shape>;
    using Vectors = LaneVectors<T, Shape, false>;
    static constexpr int size = static_cast<int>(sizeof(T)), L = Tile::L;
    static constexpr int vectors = Vectors::count, vector_steps = 16 / size;
    static constexpr int buffer_bytes = 32 * L * size;
    // A lane loads these vectors; its j-th is number 32 j + lane of the warp's.
    struct Fetched {
        uint32_t word[4 * vectors];
    };

    static __device__ __forceinline__ char* origin(const View& view, const Place& at) {
        return view.data + at.batch * view.batch + at.warp_row * view.row + at.warp_t0 * view.time;
    }
    // Finds the bytes from the origin to a vector, and its first step in the warp; returns false where its row does not
    // exist.
    static __device__ __forceinline__ bool find(const View& view, const Place& at, int j, int64_t& bytes, int& step) {
        const int vector = j * 32 + at.lane, owner = vector / vectors;
        const int row = owner >> (5 - at.log2_rows);
        step = (owner & (at.segments() - 1)) * L + vector % vectors * vector_steps;
        bytes = row * view.row + step * size;
        return row < at.warp_rows;
    }
    // Offset of a vector in the buffer.
    static __device__ __forceinline__ int offset_of(const Place& at, int j) {
        const int vector = j * 32 + at.lane;
        return Vectors::place(vector / vectors, vector % vectors);
    }
    // Whether the warp holds one row and all of its steps there exist, so that its bytes are contiguous.
    static __device__ __forceinline__ bool is_run(const Place& at) {
        return at.log2_rows == 0 && at.warp_rows > 0 && at.warp_steps == 32 * L;
    }

    // Starts the loads. Steps past the lane's last one are loaded too if they lie before `time`.
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int, int64_t time, char*,
                                                 Fetched& fetched) {
        const char* from = origin(view, at);
        if (is_run(at)) {
            from += at.lane * 16;
#pragma unroll
            for (int j = 0; j < vectors; ++j, from += 512) load_words<4>(from, fetched.word + j * 4);
            return;
        }
        const int exist = static_cast<int>(min(time - at.warp_t0, int64_t{1} << 30));
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            int64_t bytes;
            int step;
            const bool row_exists = find(view, at, j, bytes, step);
#pragma unroll
            for (int k = 0; k < 4; ++k) fetched.word[j * 4 + k] = 0;
            if (row_exists && step < exist) load_words<4>(from + bytes, fetched.word + j * 4);
        }
    }

    // Steps past the lane's last become zero bits.
    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place& at, char* buffer, Tile& tile) {
#pragma unroll
        for (int j = 0; j < vectors; ++j) store_words<4>(fetched.word + j * 4, buffer + offset_of(at, j));
        __syncwarp();
        Vectors::read(tile, at, buffer);
        __syncwarp();
        Vectors::clear_rest(tile, at);
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, char* buffer) {
        Vectors::write(tile, at, buffer);
        __syncwarp();
        char* to = origin(view, at);
        if (is_run(at)) {
            to += at.lane * 16;
#pragma unroll
            for (int j = 0; j < vectors; ++j, to += 512) copy_words<4>(buffer + offset_of(at, j), to);
        } else {
            store_part(view, at, buffer, to);
        }
        __syncwarp();
    }

  private:
    static __device__ __forceinline__ void store_part(const View& view, const Place& at, const char* buffer, char* to) {
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            int64_t bytes;
            int step;
            if (!find(view, at, j, bytes, step) || step >= at.warp_steps) continue;
            const char* const from = buffer + offset_of(at, j);
            if (step + vector_steps <= at.warp_steps) {
                copy_words<4>(from, to + bytes);
                continue;
            }
            for (int i = 0; i < vector_steps && step + i < at.warp_steps; ++i)
                copy_element<T>(from + i * size, to + bytes + i * size);
        }
    }
};

}  // namespace flashscan::cuda
