// SPDX-License-Identifier: Apache-2.0
// Copies of tiles of one row a warp, time innermost, where the row may begin and end within a vector of 16 bytes.
//
// Lanes own whole aligned vectors. Vectors that are all the row's go as in time_vectors.cuh. The elements of the
// vectors at its ends, which neighbouring rows may share, go one by one, a lane each. No byte is touched that is not
// the row's.
#pragma once

#include "cuda/device/ptx/held.cuh"
#include "cuda/device/tile/time_vectors.cuh"

namespace flashscan::cuda {

// What a lane moves of its warp's tile: the same for all tensors.
template <typename T, typename Shape>
struct RowPart {
    using Vectors = LaneVectors<T, Shape, false>;
    static constexpr int size = static_cast<int>(sizeof(T)), vectors = Vectors::count, vector_steps = 16 / size;

    // In one register. Bits 0 to 7: whether the lane's vector in turn j is the row's alone; from 8: the number of the step
    // that the lane moves by itself, counted from 1, or 0; bit 31: whether every vector of the tile is the row's.
    uint32_t bits;

    static __device__ __forceinline__ RowPart of(const Place& at) {
        const int first = static_cast<int>(max(-at.warp_t0, int64_t{0})), end = at.warp_rows > 0 ? at.warp_steps : 0;
        RowPart part{first == 0 && end == 32 * Vectors::L ? 1U << 31 : 0};
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            const int step = (j * 32 + at.lane) * vector_steps;
            if (step >= first && step + vector_steps <= end) part.bits |= 1U << j;
        }
        // Half of the lanes have the elements of the vector that the row begins in, the others of that it ends in.
        const int in = at.lane % 16, step = at.lane < 16 ? in : end / vector_steps * vector_steps + in;
        const bool shared = (at.lane >= 16 || first > 0) && in < vector_steps;
        if (shared && step >= first && step < end) part.bits |= static_cast<uint32_t>(step + 1) << 8;
        return part;
    }
    __device__ __forceinline__ bool whole() const { return bits >> 31 != 0; }
    __device__ __forceinline__ bool moves(int j) const { return (bits >> j & 1) != 0; }
    // The same, so that what was worked out from it is not kept in registers.
    __device__ __forceinline__ RowPart anew() const { return {ptx::held(bits)}; }
    __device__ __forceinline__ int lone() const { return static_cast<int>(bits >> 8 & 0x7fffff) - 1; }  // or -1
    // Of the lone step in the buffer.
    __device__ __forceinline__ int place() const {
        const int vector = lone() / vector_steps;
        return Vectors::place(vector / vectors, vector % vectors) + lone() % vector_steps * size;
    }
};

template <typename T, typename Shape>
struct SkewedVectors : TimeVectors<T, Shape> {
    using Base = TimeVectors<T, Shape>;
    using Part = RowPart<T, Shape>;
    using Base::size, Base::vector_steps, Base::vectors;
    using typename Base::Tile;
    using typename Base::Vectors;
    struct Fetched {
        uint32_t word[4 * vectors];
        uint32_t lone[(size + 3) / 4];
    };

    // A vector of steps that do not exist.
    static __device__ __forceinline__ WordVector<4> vector_of(typename Tile::Wide value) {
        Tile tile{};
#pragma unroll
        for (int i = 0; i < vector_steps; ++i) tile.set(i, 0, value);
        return {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
    }

    // Steps that do not exist are `absent`. Whole: the part is. A warp takes either way for all tensors, or the loads of one
    // tensor would wait for those of another: under a predicate they touch the registers that the other way fills.
    template <bool Whole>
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, const Part& part,
                                                 typename Tile::Wide absent, Fetched& fetched) {
        const char* const origin = Base::origin(view, at);
        const char* from = origin + at.lane * 16;
        if constexpr (Whole) {
#pragma unroll
            for (int j = 0; j < vectors; ++j, from += 512) load_words<4>(from, fetched.word + j * 4);
            return;
        }
        const WordVector<4> filling = vector_of(absent);
#pragma unroll
        for (int j = 0; j < vectors; ++j, from += 512) {
#pragma unroll
            for (int k = 0; k < 4; ++k) fetched.word[j * 4 + k] = filling.word[k];
            if (part.moves(j)) load_words<4>(from, fetched.word + j * 4);
        }
        if (part.lone() >= 0) load_element<T>(origin + part.lone() * size, fetched.lone);
    }

    // One element of the row's in every step.
    static __device__ __forceinline__ void fetch_constant(const View& view, const Place& at, const Part& part,
                                                          typename Tile::Wide absent, Fetched& fetched) {
        Tile one{};
        if (at.warp_rows > 0) load_element<T>(view.data + at.batch * view.batch + at.warp_row * view.row, one.word);
        const WordVector<4> given = vector_of(one.get(0, 0)), filling = vector_of(absent);
#pragma unroll
        for (int j = 0; j < vectors; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) fetched.word[j * 4 + k] = part.moves(j) ? given.word[k] : filling.word[k];
#pragma unroll
        for (int k = 0; k < (size + 3) / 4; ++k) fetched.lone[k] = one.word[k];
    }

    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place& at, const Part& known,
                                                   char* buffer, Tile& tile) {
        const Part part = known.anew();
#pragma unroll
        for (int j = 0; j < vectors; ++j) store_words<4>(fetched.word + j * 4, buffer + Base::offset_of(at, j));
        __syncwarp();
        if (!part.whole()) {
            if (part.lone() >= 0) store_element<T>(fetched.lone, buffer + part.place());
            __syncwarp();
        }
        Vectors::read(tile, at, buffer);
        __syncwarp();
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, const Part& known,
                                                 char* buffer) {
        const Part part = known.anew();
        Vectors::write(tile, at, buffer);
        __syncwarp();
        char* const origin = Base::origin(view, at);
        char* to = origin + at.lane * 16;
        if (part.whole()) {
#pragma unroll
            for (int j = 0; j < vectors; ++j, to += 512) copy_words<4>(buffer + Base::offset_of(at, j), to);
        } else {
#pragma unroll
            for (int j = 0; j < vectors; ++j, to += 512)
                if (part.moves(j)) copy_words<4>(buffer + Base::offset_of(at, j), to);
            if (part.lone() >= 0) copy_element<T>(buffer + part.place(), origin + part.lone() * size);
        }
        __syncwarp();
    }
};

}  // namespace flashscan::cuda
