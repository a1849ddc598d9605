// SPDX-License-Identifier: Apache-2.0
// Copies of tiles between memory and registers: `fetch` starts the loads of a tile and `arrange` gives each lane its
// steps, so that the loads of several tensors are in flight at once; `store` writes a tile back.
//
// Channels innermost, a lane loads its own rows step by step and a warp's step is contiguous. Time innermost, a warp
// loads contiguous pieces in turn and the lanes exchange them through a buffer of the warp's in shared memory, 16-byte
// vectors permuted so that neither side has bank conflicts.
// Loads and stores are plain: on an H200 hints to evict first cost 10 % of the time.
#pragma once

#include "cuda/kernels/steps.cuh"

namespace flashscan::cuda {

// All dynamic shared memory of a block.
__device__ __forceinline__ char* shared_memory() {
    extern __shared__ __align__(16) char memory[];
    return memory;
}

// One element as its type is aligned, its bits in `to`.
template <typename T>
__device__ __forceinline__ void load_element(const char* from, uint32_t* to) {
    if constexpr (sizeof(T) == 2) {
        *to = *reinterpret_cast<const uint16_t*>(from);
    } else {
        constexpr int part = alignof(T) < 8 ? 1 : 2;  // words that lie together
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; i += part) load_words<part>(from + 4 * i, to + i);
    }
}
template <typename T>
__device__ __forceinline__ void store_element(const uint32_t* from, char* to) {
    if constexpr (sizeof(T) == 2) {
        *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(*from);
    } else {
        constexpr int part = alignof(T) < 8 ? 1 : 2;
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; i += part) store_words<part>(from + i, to + 4 * i);
    }
}

template <typename T, typename Shape>
struct ChannelCopies {
    using Tile = Steps<T, Shape>;
    using Fetched = Tile;
    static constexpr int words = Tile::count / Tile::L;  // of a step
    static constexpr bool packs = Shape::access == Access::channel_packs;

    static __device__ __forceinline__ char* address(const View& view, const Place& at, int shift) {
        return view.data + at.batch * view.batch + at.row * view.row + (at.t0 + shift) * view.time;
    }

    static __device__ __forceinline__ void load_step(const char* from, uint32_t* to) {
        if constexpr (packs)
            load_words<words>(from, to);
        else
            load_element<T>(from, to);
    }
    static __device__ __forceinline__ void store_step(const uint32_t* from, char* to) {
        if constexpr (packs)
            store_words<words>(from, to);
        else
            store_element<T>(from, to);
    }

    // Of steps moved by `shift`, those in [0, time); the others and those that do not exist are zero bits.
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int shift, int64_t time,
                                                 Fetched& tile) {
        const char* from = address(view, at, shift);
        const int first = at.t0 + shift < 0 ? 1 : 0;
        const int last = static_cast<int>(min(static_cast<int64_t>(at.steps), time - shift - at.t0));
        if (__all_sync(0xffffffffU, first == 0 && last == Tile::L)) {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, from += view.time) load_step(from, tile.word + i * words);
        } else {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, from += view.time) {
#pragma unroll
                for (int k = 0; k < words; ++k) tile.word[i * words + k] = 0;
                if (i >= first && i < last) load_step(from, tile.word + i * words);
            }
        }
    }

    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place&, char*, Tile& tile) {
        tile = fetched;
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, char*) {
        char* to = address(view, at, 0);
        if (__all_sync(0xffffffffU, at.steps == Tile::L)) {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, to += view.time) store_step(tile.word + i * words, to);
        } else {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, to += view.time)
                if (i < at.steps) store_step(tile.word + i * words, to);
        }
    }
};

template <typename T, typename Shape>
struct TimeCopies {
    using Tile = Steps<T, Shape>;
    static constexpr int size = static_cast<int>(sizeof(T)), L = Tile::L;
    static constexpr int vectors = L * size / 16;  // of a lane
    static constexpr int vector_steps = 16 / size;
    static constexpr int element_words = size < 4 ? 1 : size / 4;
    static constexpr bool whole_vectors = Shape::access == Access::time_vectors;
    // In turn: vector j or element j of a lane is the (32 j + lane)-th of the warp.
    struct Fetched {
        uint32_t word[whole_vectors ? 4 * vectors : element_words * L];
    };
    static constexpr int buffer_bytes = 32 * L * size;
    static_assert(vectors >= 1 && vectors <= 8);

    // Offset of a vector of a lane in the warp's buffer.
    static __device__ __forceinline__ int place(int lane, int vector) {
        constexpr int shift = vectors == 8 ? 0 : vectors == 4 ? 1 : 2;
        return (lane * vectors + (vector ^ ((lane >> shift) & (vectors - 1)))) * 16;
    }
    static constexpr int pieces = whole_vectors ? vectors : L, piece_steps = whole_vectors ? vector_steps : 1;
    static constexpr int piece_words = whole_vectors ? 4 : element_words;

    static __device__ __forceinline__ char* origin(const View& view, const Place& at) {
        return view.data + at.batch * view.batch + at.warp_row * view.row + at.warp_t0 * view.time;
    }
    // Bytes from the origin to a piece, and its step in the warp; false where its row does not exist.
    static __device__ __forceinline__ bool find(const View& view, const Place& at, int j, int64_t& bytes, int& step) {
        const int piece = j * 32 + at.lane, owner = piece / pieces;
        const int row = owner >> (5 - at.log2_rows);
        step = (owner & (at.segments() - 1)) * L + piece % pieces * piece_steps;
        bytes = row * view.row + step * view.time;
        return row < at.warp_rows;
    }
    // Offset of a piece in the buffer.
    static __device__ __forceinline__ int offset_of(const Place& at, int j) {
        const int piece = j * 32 + at.lane, inside = piece % pieces * piece_steps * size;
        return place(piece / pieces, inside / 16) + inside % 16;
    }
    // The warp holds one row, all of whose steps exist.
    static __device__ __forceinline__ bool is_run(const Place& at) {
        return at.log2_rows == 0 && at.warp_rows > 0 && at.warp_steps == 32 * L;
    }

    static __device__ __forceinline__ void load_piece(const char* from, uint32_t* to) {
        if constexpr (whole_vectors)
            load_words<4>(from, to);
        else
            load_element<T>(from, to);
    }
    static __device__ __forceinline__ void store_piece(const uint32_t* from, char* to) {
        if constexpr (whole_vectors)
            store_words<4>(from, to);
        else
            store_element<T>(from, to);
    }

    // Steps that do not exist may read as what lies there, up to `time`.
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int, int64_t time,
                                                 Fetched& fetched) {
        const char* from = origin(view, at);
        if (is_run(at)) {
            const int64_t stride = 32 * piece_steps * (whole_vectors ? size : view.time);
            from += at.lane * piece_steps * (whole_vectors ? size : view.time);
#pragma unroll
            for (int j = 0; j < pieces; ++j, from += stride) load_piece(from, fetched.word + j * piece_words);
            return;
        }
        const int exist = static_cast<int>(min(time - at.warp_t0, int64_t{1} << 30));
#pragma unroll
        for (int j = 0; j < pieces; ++j) {
            int64_t bytes;
            int step;
            const bool row_exists = find(view, at, j, bytes, step);
#pragma unroll
            for (int k = 0; k < piece_words; ++k) fetched.word[j * piece_words + k] = 0;
            if (row_exists && step < exist) load_piece(from + bytes, fetched.word + j * piece_words);
        }
    }

    // Steps past the lane's last become zero bits.
    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place& at, char* buffer, Tile& tile) {
#pragma unroll
        for (int j = 0; j < pieces; ++j) store_piece(fetched.word + j * piece_words, buffer + offset_of(at, j));
        __syncwarp();
        read(tile, at, buffer);
        __syncwarp();
        if (at.steps >= L) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (i >= at.steps) tile.set(i, 0, typename Tile::Wide{});
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, char* buffer) {
#pragma unroll
        for (int n = 0; n < vectors; ++n) store_words<4>(tile.word + 4 * n, buffer + place(at.lane, n));
        __syncwarp();
        char* to = origin(view, at);
        if (is_run(at)) {
            const int64_t stride = 32 * piece_steps * (whole_vectors ? size : view.time);
            to += at.lane * piece_steps * (whole_vectors ? size : view.time);
#pragma unroll
            for (int j = 0; j < pieces; ++j, to += stride) copy_piece(buffer + offset_of(at, j), to);
        } else {
            store_part(view, at, buffer, to);
        }
        __syncwarp();
    }

  private:
    static __device__ __forceinline__ void copy_piece(const char* from, char* to) {
        uint32_t bits[piece_words];
        load_piece(from, bits);
        store_piece(bits, to);
    }

    static __device__ __forceinline__ void store_part(const View& view, const Place& at, const char* buffer, char* to) {
#pragma unroll
        for (int j = 0; j < pieces; ++j) {
            int64_t bytes;
            int step;
            if (!find(view, at, j, bytes, step) || step >= at.warp_steps) continue;
            const char* const from = buffer + offset_of(at, j);
            if (step + piece_steps <= at.warp_steps) {
                copy_piece(from, to + bytes);
                continue;
            }
            for (int i = 0; i < piece_steps && step + i < at.warp_steps; ++i) {
                uint32_t bits[element_words];
                load_element<T>(from + i * size, bits);
                store_element<T>(bits, to + bytes + i * size);
            }
        }
    }

    static __device__ __forceinline__ void read(Tile& tile, const Place& at, const char* buffer) {
#pragma unroll
        for (int n = 0; n < vectors; ++n) load_words<4>(buffer + place(at.lane, n), tile.word + 4 * n);
    }
};

template <typename T, typename Shape>
using Copies = std::conditional_t<Shape::time_inner, TimeCopies<T, Shape>, ChannelCopies<T, Shape>>;

// Bytes of a warp's buffer.
template <typename X, typename G, typename Shape>
constexpr int buffer_bytes() {
    if constexpr (Shape::time_inner)
        return Shape::L * 32 * static_cast<int>(sizeof(X) > sizeof(G) ? sizeof(X) : sizeof(G));
    else
        return 0;
}

}  // namespace flashscan::cuda
