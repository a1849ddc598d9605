// SPDX-License-Identifier: Apache-2.0
// A warp's tile in shared memory and the copies that fill and drain it.
//
// A tile is 32 lanes x L steps; a lane is a (row, segment of time) pair. 2^log2_rows rows stand side by side and the
// remaining factor of 32 is consecutive segments of L steps each, so the tile covers Segments * L steps of its rows.
//
//   time innermost     [slot = row * Segments + segment][L steps], 16 bytes of padding per slot: a lane reads its steps
//                      as 16-byte vectors without bank conflicts
//   channel innermost  [segment][L steps][rows of V channels], one row of padding per segment; V channels make 4 bytes
//                      at least, so that a warp's step is free of bank conflicts
//
// Copies into the tile are cp.async in pieces of 16 bytes where pointers and strides allow, else in the smaller pieces
// of View::granule, else element by element.
#pragma once

#include "cuda/kernels/linear_params.h"
#include "cuda/kernels/types.cuh"
#include "cuda/ptx/async_copy.cuh"

namespace flashscan::cuda {

template <typename T, int N>
struct alignas(sizeof(T) * N >= 16 ? 16 : sizeof(T) * N) Vector {
    T value[N];
};

template <int N>
constexpr int log2_of = N <= 1 ? 0 : 1 + log2_of<N / 2>;
template <>
constexpr int log2_of<0> = 0;

// The shape of the tiles of one kernel; LaneBytes is a lane's share of a tile of X.
template <typename X, bool TimeInner_, int LaneBytes>
struct TileShape {
    static constexpr bool TimeInner = TimeInner_;
    static constexpr int V = TimeInner || sizeof(X) >= 4 ? 1 : 4 / static_cast<int>(sizeof(X));
    static constexpr int L = LaneBytes / (V * static_cast<int>(sizeof(X)));
    // Steps that a lane takes to registers at once.
    static constexpr int U = TimeInner ? 16 / static_cast<int>(sizeof(X)) : (L < 8 ? L : 8);

    template <typename T>
    static constexpr int bytes() {
        return TimeInner ? 32 * (L * static_cast<int>(sizeof(T)) + 16) : 32 * V * static_cast<int>(sizeof(T)) * (L + 1);
    }
    template <typename T>
    static __device__ __forceinline__ int offset(int log2_rows, int channel, int segment, int step) {
        constexpr int size = static_cast<int>(sizeof(T));
        if constexpr (TimeInner)
            return ((channel << (5 - log2_rows)) + segment) * (L * size + 16) + step * size;
        else
            return ((segment * (L + 1) + step) << log2_rows) * V * size + channel * size;
    }
    // Distance in bytes between a lane's consecutive steps.
    template <typename T>
    static __device__ __forceinline__ int step_bytes(int log2_rows) {
        return TimeInner ? static_cast<int>(sizeof(T)) : (V * static_cast<int>(sizeof(T))) << log2_rows;
    }
};

// The part of a tensor under a tile: `origin` is the address of its first row and step, of which `rows` rows and the
// steps [first, last) exist.
struct Window {
    char* origin;
    int rows, first, last;
};

template <typename T>
struct Granules {
    static constexpr int size = static_cast<int>(sizeof(T));
    static constexpr int middle = size >= 8 ? 8 : 4;
    static constexpr int element = size == 16 ? 8 : sizeof(T) == sizeof(float) * 2 && alignof(T) == 4 ? 4 : size;
};

// Visits the pieces of Bytes bytes of a tile that is contiguous along its inner axis:
// f(offset in the tile, address in the tensor, bytes of the piece that exist).
template <typename Shape, typename T, int Bytes, typename F>
__device__ __forceinline__ void for_pieces(const View& view, const Window& w, int log2_rows, int lane, F&& f) {
    constexpr int size = static_cast<int>(sizeof(T)), L = Shape::L;
    constexpr int count = Shape::V * L * size / Bytes;
#pragma unroll 8
    for (int n = 0; n < count; ++n) {
        const int piece = n * 32 + lane;
        if constexpr (Shape::TimeInner) {
            const int slot = piece / count, inside = piece % count * Bytes;
            const int row = slot >> (5 - log2_rows), segment = slot & ((32 >> log2_rows) - 1);
            const int along = segment * L * size + inside;
            const int exist = row < w.rows ? min(max(w.last * size - along, 0), Bytes) : 0;
            f(slot * (L * size + 16) + inside, w.origin + row * view.row + along, exist);
        } else {
            const int log2_pieces = log2_rows + log2_of<Shape::V * size> - log2_of<Bytes>;
            const int inside = (piece & ((1 << log2_pieces) - 1)) * Bytes, step = piece >> log2_pieces;
            const int exist = step >= w.first && step < w.last ? min(max(w.rows * size - inside, 0), Bytes) : 0;
            f((((step / L) * (L + 1) + step % L) << log2_rows) * Shape::V * size + inside,
              w.origin + step * view.time + inside, exist);
        }
    }
}

// Visits the elements of a tile one by one, in pieces: f(offset in the tile, address in the tensor, exists).
template <typename Shape, typename T, typename F>
__device__ __forceinline__ void for_elements(const View& view, const Window& w, int log2_rows, int lane, F&& f) {
    constexpr int piece_bytes = Granules<T>::element, pieces = static_cast<int>(sizeof(T)) / piece_bytes;
    const int log2_channels = log2_rows + log2_of<Shape::V>, steps = (32 >> log2_rows) * Shape::L;
    for (int n = lane; n < 32 * Shape::V * Shape::L * pieces; n += 32) {
        const int part = n % pieces * piece_bytes, element = n / pieces;
        const int channel = view.time_fast ? element / steps : element & ((1 << log2_channels) - 1);
        const int step = view.time_fast ? element % steps : element >> log2_channels;
        f(Shape::template offset<T>(log2_rows, channel, step / Shape::L, step % Shape::L) + part,
          w.origin + channel * view.row + step * view.time + part,
          channel < w.rows && step >= w.first && step < w.last);
    }
}

template <int Bytes>
__device__ __forceinline__ void load_piece(char* tile, int offset, const char* from, int exist) {
    if constexpr (Bytes == 2)
        *reinterpret_cast<uint16_t*>(tile + offset) =
            exist > 0 ? *reinterpret_cast<const uint16_t*>(from) : uint16_t{0};
    else
        ptx::copy_async<Bytes>(static_cast<uint32_t>(__cvta_generic_to_shared(tile + offset)), from, exist);
}

template <typename T, int Bytes>
__device__ __forceinline__ void store_piece(const char* tile, int offset, char* to, int exist) {
    constexpr int word = Bytes < 4 ? Bytes : 4;
    using Word = std::conditional_t<word == 2, uint16_t, uint32_t>;
    using Piece = Vector<Word, Bytes / word>;
    const Piece piece = *reinterpret_cast<const Piece*>(tile + offset);
    if (exist == Bytes) {
        *reinterpret_cast<Piece*>(to) = piece;
    } else if constexpr (sizeof(T) < Bytes) {
        for (int n = 0; n * static_cast<int>(sizeof(T)) < exist; ++n)
            reinterpret_cast<T*>(to)[n] = reinterpret_cast<const T*>(tile + offset)[n];
    }
}

// What is not in 16-byte pieces; apart, so that the kernels' loops stay small.
template <typename Shape, typename T>
__device__ __noinline__ void load_tile_general(char* tile, const View& view, Window w, int log2_rows, int lane) {
    using G = Granules<T>;
    const auto with = [&](auto bytes) {
        constexpr int Bytes = decltype(bytes)::value;
        for_pieces<Shape, T, Bytes>(view, w, log2_rows, lane, [&](int offset, const char* from, int exist) {
            load_piece<Bytes>(tile, offset, exist > 0 ? from : w.origin, exist);
        });
    };
    if (view.granule == G::middle) return with(std::integral_constant<int, G::middle>{});
    if constexpr (G::element < G::middle)
        if (view.granule == G::element) return with(std::integral_constant<int, G::element>{});
    for_elements<Shape, T>(view, w, log2_rows, lane, [&](int offset, const char* from, bool exists) {
        load_piece<G::element>(tile, offset, exists ? from : w.origin, exists ? G::element : 0);
    });
}

template <typename Shape, typename T>
__device__ __noinline__ void store_tile_general(const char* tile, const View& view, Window w, int log2_rows, int lane) {
    using G = Granules<T>;
    const auto with = [&](auto bytes) {
        constexpr int Bytes = decltype(bytes)::value;
        for_pieces<Shape, T, Bytes>(view, w, log2_rows, lane, [&](int offset, char* to, int exist) {
            if (exist > 0) store_piece<T, Bytes>(tile, offset, to, exist);
        });
    };
    if (view.granule == G::middle) return with(std::integral_constant<int, G::middle>{});
    if constexpr (G::element < G::middle)
        if (view.granule == G::element) return with(std::integral_constant<int, G::element>{});
    for_elements<Shape, T>(view, w, log2_rows, lane, [&](int offset, char* to, bool exists) {
        if (exists) store_piece<T, G::element>(tile, offset, to, G::element);
    });
}

// Starts the copies of a tile; they are complete after ptx::wait_copies and __syncwarp. What does not exist reads as 0.
template <typename Shape, typename T>
__device__ __forceinline__ void load_tile(char* tile, const View& view, const Window& w, int log2_rows, int lane) {
    if (view.granule != 16) return load_tile_general<Shape, T>(tile, view, w, log2_rows, lane);
    for_pieces<Shape, T, 16>(view, w, log2_rows, lane, [&](int offset, const char* from, int exist) {
        load_piece<16>(tile, offset, exist > 0 ? from : w.origin, exist);
    });
}

template <typename Shape, typename T>
__device__ __forceinline__ void store_tile(const char* tile, const View& view, const Window& w, int log2_rows,
                                           int lane) {
    if (view.granule != 16) return store_tile_general<Shape, T>(tile, view, w, log2_rows, lane);
    for_pieces<Shape, T, 16>(view, w, log2_rows, lane, [&](int offset, char* to, int exist) {
        if (exist > 0) store_piece<T, 16>(tile, offset, to, exist);
    });
}

}  // namespace flashscan::cuda
