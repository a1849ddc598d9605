// SPDX-License-Identifier: Apache-2.0
// Copies of tiles of one row for each warp, time innermost, where the row may begin and end within a vector of 16
// bytes.
//
// Lanes own whole aligned vectors. Vectors that belong to the row alone are copied whole, through the warp's buffer
// (time_vectors.cuh). The vectors at its ends, which neighbouring rows may share, are copied element by element, by one
// lane for each element. No byte outside of the row is read or written.
#pragma once

#include "cuda/device/ptx/held.cuh"
#include "cuda/device/tile/time_vectors.cuh"

namespace flashscan::cuda {

// Which parts of its warp's tile a lane moves; it is the same for all tensors.
template <typename T, typename Shape>
struct RowPart {
    using Vectors = LaneVectors<T, Shape, false>;
    static constexpr int size = static_cast<int>(sizeof(T)), vectors = Vectors::count, vector_steps = 16 / size;

    // Packed into one register. Bits 0 to 7: whether the lane's j-th vector belongs to the row alone. Bits 8 to 30: the
    // step that the lane moves as a single element, counted from 1; 0 for none. Bit 31: whether every vector of the
    // tile belongs to the row alone.
    uint32_t bits;

    static __device__ __forceinline__ RowPart of(const Place& at) {
        const int first = static_cast<int>(max(-at.warp_t0, int64_t{0})), end = at.warp_rows > 0 ? at.warp_steps : 0;
        RowPart part{first == 0 && end == 32 * Vectors::L ? 1U << 31 : 0};
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            const int step = (j * 32 + at.lane) * vector_steps;
            if (step >= first && step + vector_steps <= end) part.bits |= 1U << j;
        }
        // Lanes 0 to 15 have the elements of the vector in which the row begins, the others of the one in which it
        // ends.
        const int in = at.lane % 16, step = at.lane < 16 ? in : end / vector_steps * vector_steps + in;
        const bool shared = (at.lane >= 16 || first > 0) && in < vector_steps;
        if (shared && step >= first && step < end) part.bits |= static_cast<uint32_t>(step + 1) << 8;
        return part;
    }
    __device__ __forceinline__ bool whole() const { return bits >> 31 != 0; }
    __device__ __forceinline__ bool moves(int j) const { return (bits >> j & 1) != 0; }
    // A copy that the compiler cannot know to be equal: it then derives what it needs from the copy again, instead of
    // keeping that in registers.
    __device__ __forceinline__ RowPart anew() const { return {ptx::held(bits)}; }
    // The step that the lane moves as a single element, or -1.
    __device__ __forceinline__ int lone() const { return static_cast<int>(bits >> 8 & 0x7fffff) - 1; }
    // The offset of that step in the buffer.
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

    // A vector that holds `value` in every step.
    static __device__ __forceinline__ WordVector<4> vector_of(typename Tile::Wide value) {
        Tile tile{};
#pragma unroll
        for (int i = 0; i < vector_steps; ++i) tile.set(i, 0, value);
        return {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
    }

    // Starts the loads; steps that do not exist become `absent`. Whole tells that part.whole() is true. The caller
    // branches on it once for all tensors: predicated loads write registers that the other variant has filled, so the
    // loads of one tensor would wait for those of another.
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

    // Loads the one element of a row that is the same in every step.
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
