// SPDX-License-Identifier: Apache-2.0
// A warp's tile in shared memory and the copies that fill and drain it.
//
// A tile is 32 lanes x L steps; a lane is a (row, segment of time) pair. 2^log2_rows packs of V channels stand side by
// side and the remaining factor of 32 is consecutive segments of L steps each, so the tile covers Segments * L steps.
//
//   time innermost     [128-byte columns of a lane's steps][slot = row * Segments + segment][128 bytes], the 16-byte
//                      pieces of a slot permuted by its number (the copy engine's 128-byte swizzle): lanes read their
//                      steps as 16-byte vectors without bank conflicts
//   channel innermost  [segment][L steps][packs of V channels], a step of padding per segment where packs are less
//                      than 8 bytes: a warp's step is free of bank conflicts
//
// Copies: one instruction of the bulk copy engine where the host gave the tensor a map (View::bulk) and the tile is
// whole; else cp.async in pieces of View::granule bytes, or element by element.
#pragma once

#include <type_traits>

#include "cuda/kernels/linear_params.h"
#include "cuda/kernels/types.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/bulk_copy.cuh"

namespace flashscan::cuda {

template <typename T, int N>
struct alignas(sizeof(T) * N >= 16 ? 16 : sizeof(T) * N) Vector {
    T value[N];
};

template <int N>
constexpr int log2_of = N <= 1 ? 0 : 1 + log2_of<N / 2>;
template <>
constexpr int log2_of<0> = 0;

// All dynamic shared memory of a block. Accesses go through it by 32-bit offsets, so that they compile to shared-memory
// instructions also in functions that are not inlined.
__device__ __forceinline__ char* shared_memory() {
    extern __shared__ __align__(1024) char memory[];
    return memory;
}

// The shape of the tiles of one kernel; LaneBytes is a lane's share of a tile of X, PackBytes its channels of one step
// where they are innermost.
template <typename X, bool TimeInner_, int LaneBytes, int PackBytes>
struct TileShape {
    static constexpr bool TimeInner = TimeInner_;
    static constexpr int V = TimeInner || sizeof(X) >= PackBytes ? 1 : PackBytes / static_cast<int>(sizeof(X));
    static constexpr int L = LaneBytes / (V * static_cast<int>(sizeof(X)));
    // Steps that a lane takes to registers at once.
    static constexpr int U = TimeInner        ? 16 / static_cast<int>(sizeof(X))
                             : sizeof(X) <= 4 ? 8 / V
                             : sizeof(X) == 8 ? 4 / V
                                              : 2;
    // Packs side by side at most, and channels of a tile then. Packs of 8 or 16 bytes fill a row of all banks with part
    // of a warp; smaller ones take a whole warp, and a step of padding where segments lie in one another's banks.
    static constexpr int log2_widest = TimeInner || PackBytes < 8 ? 5 : log2_of<128 / PackBytes>;
    static constexpr int max_rows = V << log2_widest;
    static constexpr int padding = !TimeInner && PackBytes < 8 ? 1 : 0;

    template <typename T>
    static constexpr int bytes() {
        constexpr int size = static_cast<int>(sizeof(T));
        return TimeInner ? 32 * (L * size < 128 ? 128 : L * size) : 32 * V * size * (L + padding);
    }
    template <typename T>
    static constexpr bool can_bulk = !TimeInner || L * sizeof(T) >= 128;
};

// Where one lane's steps lie in a tile of T.
template <typename Shape, typename T>
struct LaneTile {
    static constexpr int size = static_cast<int>(sizeof(T));
    int base, pitch, swizzle;

    __device__ __forceinline__ LaneTile(int tile, int log2_rows, int pack, int segment) {
        if constexpr (Shape::TimeInner) {
            const int slot = (pack << (5 - log2_rows)) + segment;
            base = tile + slot * 128;
            pitch = size;
            swizzle = (slot & 7) << 4;
        } else {
            pitch = (Shape::V * size) << log2_rows;
            base = tile + segment * (Shape::L + Shape::padding) * pitch + pack * Shape::V * size;
            swizzle = 0;
        }
    }
    // Offset in shared memory of byte 0 of a step.
    __device__ __forceinline__ int at(int step) const {
        if constexpr (!Shape::TimeInner) return base + step * pitch;
        const int byte = step * size;
        return base + ((byte & ~127) << 5) + ((byte & 127) ^ swizzle);
    }
};

// The part of a tensor under a tile: it begins at row `row` and step `t0` (moved by the shift of the tensor), and its
// rows below `rows` and steps [first, last) exist. `whole` tiles may go through the copy engine.
struct Window {
    int64_t batch, row, t0;
    int rows, first, last;
    bool whole;
};

template <typename T>
struct Granules {
    static constexpr int size = static_cast<int>(sizeof(T));
    static constexpr int middle = size >= 8 ? 8 : 4;
    static constexpr int element = size == 16 ? 8 : sizeof(T) == 8 && alignof(T) == 4 ? 4 : size;
};

// Visits the pieces of Bytes bytes of a tile that is contiguous along its inner axis:
// f(offset in the tile, address in the tensor, bytes of the piece that exist).
template <typename Shape, typename T, int Bytes, typename F>
__device__ __forceinline__ void for_pieces(const View& view, const Window& w, char* origin, int log2_rows, int lane,
                                           F&& f) {
    constexpr int size = static_cast<int>(sizeof(T)), L = Shape::L;
    constexpr int count = Shape::V * L * size / Bytes;
#pragma unroll(Bytes == 2 ? 16 : 8)
    for (int n = 0; n < count; ++n) {
        const int piece = n * 32 + lane;
        if constexpr (Shape::TimeInner) {
            const int slot = piece / count, inside = piece % count * Bytes;
            const int row = slot >> (5 - log2_rows), segment = slot & ((32 >> log2_rows) - 1);
            const int along = segment * L * size + inside;
            const int exist = row < w.rows ? min(max(w.last * size - along, 0), Bytes) : 0;
            f(((inside & ~127) << 5) + slot * 128 + ((inside & 127) ^ ((slot & 7) << 4)),
              origin + row * view.row + along, exist);
        } else {
            const int log2_pieces = log2_rows + log2_of<Shape::V * size> - log2_of<Bytes>;
            const int inside = (piece & ((1 << log2_pieces) - 1)) * Bytes, step = piece >> log2_pieces;
            const int exist = step >= w.first && step < w.last ? min(max(w.rows * size - inside, 0), Bytes) : 0;
            f((((step / L) * (L + Shape::padding) + step % L) << log2_rows) * Shape::V * size + inside,
              origin + step * view.time + inside, exist);
        }
    }
}

// Visits the elements of a tile one by one, in pieces: f(offset in the tile, address in the tensor, exists).
template <typename Shape, typename T, typename F>
__device__ __forceinline__ void for_elements(const View& view, const Window& w, char* origin, int log2_rows, int lane,
                                             F&& f) {
    constexpr int piece_bytes = Granules<T>::element, pieces = static_cast<int>(sizeof(T)) / piece_bytes;
    const int log2_channels = log2_rows + log2_of<Shape::V>, steps = (32 >> log2_rows) * Shape::L;
    for (int n = lane; n < 32 * Shape::V * Shape::L * pieces; n += 32) {
        const int part = n % pieces * piece_bytes, element = n / pieces;
        const int channel = view.time_fast ? element / steps : element & ((1 << log2_channels) - 1);
        const int step = view.time_fast ? element % steps : element >> log2_channels;
        const LaneTile<Shape, T> lane_tile(0, log2_rows, channel / Shape::V, step / Shape::L);
        f(lane_tile.at(step % Shape::L) + channel % Shape::V * static_cast<int>(sizeof(T)) + part,
          origin + channel * view.row + step * view.time + part, channel < w.rows && step >= w.first && step < w.last);
    }
}

// A piece that exists in part is read element by element: nothing past the tensor's end is touched.
template <typename T, int Bytes>
__device__ __forceinline__ void load_piece(int offset, const char* from, int exist) {
    char* const to = shared_memory() + offset;
    if (Bytes > 2 && exist == Bytes) {
        ptx::copy_async<Bytes>(ptx::shared_address(to), from);
        return;
    }
    constexpr int size = sizeof(T) < Bytes ? static_cast<int>(sizeof(T)) : Bytes;
    using Word = std::conditional_t<size == 2, uint16_t, std::conditional_t<size == 4, uint32_t, uint2>>;
#pragma unroll
    for (int n = 0; n < Bytes / static_cast<int>(sizeof(Word)); ++n) {
        const bool exists = (n + 1) * static_cast<int>(sizeof(Word)) <= exist;
        reinterpret_cast<Word*>(to)[n] = exists ? __ldg(reinterpret_cast<const Word*>(from) + n) : Word{};
    }
}

template <typename T, int Bytes>
__device__ __forceinline__ void store_piece(int offset, char* to, int exist) {
    constexpr int word = Bytes < 4 ? Bytes : 4;
    using Word = std::conditional_t<word == 2, uint16_t, uint32_t>;
    using Piece = Vector<Word, Bytes / word>;
    const char* const from = shared_memory() + offset;
    const Piece piece = *reinterpret_cast<const Piece*>(from);
    if (exist == Bytes) {
        *reinterpret_cast<Piece*>(to) = piece;
    } else if constexpr (sizeof(T) < Bytes) {
        for (int n = 0; n * static_cast<int>(sizeof(T)) < exist; ++n)
            reinterpret_cast<T*>(to)[n] = reinterpret_cast<const T*>(from)[n];
    }
}

// Calls f with the widest piece that the view allows as a constant; false when elements lie apart.
template <typename T, typename F>
__device__ __forceinline__ bool with_granule(int granule, F&& f) {
    using G = Granules<T>;
    if (granule == 16) return f(std::integral_constant<int, 16>{}), true;
    if (granule == G::middle) return f(std::integral_constant<int, G::middle>{}), true;
    if constexpr (G::element < G::middle)
        if (granule == G::element) return f(std::integral_constant<int, G::element>{}), true;
    return false;
}

// Calls f(log2_rows), as a constant where rows fill the warp, so that the arithmetic of addresses folds.
template <typename F>
__device__ __forceinline__ void with_width(int log2_rows, F&& f) {
    if (log2_rows == 5)
        f(5);
    else
        f(log2_rows);
}

// By the threads of a warp; out of line, so that the kernels' loops stay small, with a Window's fields one by one, so
// that they travel in registers.
template <typename Shape, typename T>
__device__ __noinline__ void load_tile_by_warp(int tile, const View& view, int64_t batch, int64_t row, int64_t t0,
                                               int rows, int first, int last, int log2_rows, int lane) {
    const Window w{batch, row, t0, rows, first, last, false};
    char* const origin = view.data + batch * view.batch + row * view.row + t0 * view.time;
    if (with_granule<T>(view.granule, [&](auto bytes) {
            constexpr int Bytes = decltype(bytes)::value;
            const auto copy = [&](int log2) {
                for_pieces<Shape, T, Bytes>(view, w, origin, log2, lane, [&](int offset, const char* from, int exist) {
                    load_piece<T, Bytes>(tile + offset, from, exist);
                });
            };
            with_width(log2_rows, copy);
        }))
        return;
    constexpr int Bytes = Granules<T>::element;
    for_elements<Shape, T>(view, w, origin, log2_rows, lane, [&](int offset, const char* from, bool exists) {
        load_piece<T, Bytes>(tile + offset, from, exists ? Bytes : 0);
    });
}

template <typename Shape, typename T>
__device__ __noinline__ void store_tile_by_warp(int tile, const View& view, int64_t batch, int64_t row, int64_t t0,
                                                int rows, int first, int last, int log2_rows, int lane) {
    const Window w{batch, row, t0, rows, first, last, false};
    char* const origin = view.data + batch * view.batch + row * view.row + t0 * view.time;
    if (with_granule<T>(view.granule, [&](auto bytes) {
            constexpr int Bytes = decltype(bytes)::value;
            const auto copy = [&](int log2) {
                for_pieces<Shape, T, Bytes>(view, w, origin, log2, lane, [&](int offset, char* to, int exist) {
                    if (exist > 0) store_piece<T, Bytes>(tile + offset, to, exist);
                });
            };
            with_width(log2_rows, copy);
        }))
        return;
    constexpr int Bytes = Granules<T>::element;
    for_elements<Shape, T>(view, w, origin, log2_rows, lane, [&](int offset, char* to, bool exists) {
        if (exists) store_piece<T, Bytes>(tile + offset, to, Bytes);
    });
}

// Channels innermost: one box. Time innermost: a box for each 128-byte column of the lanes' steps.
template <typename Shape, typename T, typename Box3, typename Box5>
__device__ __forceinline__ void for_boxes(int tile, const Window& w, Box3&& box3, Box5&& box5) {
    if constexpr (!Shape::TimeInner) {
        constexpr int words = sizeof(T) == 16 ? 2 : 1;
        box3(ptx::shared_address(shared_memory() + tile), static_cast<int>(w.row) * words, static_cast<int>(w.t0),
             static_cast<int>(w.batch));
    } else {
#pragma unroll
        for (int column = 0; column < Shape::L * static_cast<int>(sizeof(T)) / 128; ++column)
            box5(ptx::shared_address(shared_memory() + tile + column * 4096), static_cast<int>(w.t0 / Shape::L), column,
                 static_cast<int>(w.row), static_cast<int>(w.batch));
    }
}

template <typename Shape, typename T>
__device__ __forceinline__ bool loads_in_bulk(const View& view, const Window& w) {
    return Shape::template can_bulk<T> && view.bulk != 0 && (w.whole || !Shape::TimeInner);
}

// Bytes that a bulk load of a tile brings.
template <typename Shape, typename T>
constexpr int bulk_bytes = 32 * Shape::V* Shape::L* static_cast<int>(sizeof(T));

// Starts the copy of a tile. It is complete after ptx::wait_copies, or after `barrier` where loads_in_bulk, and
// __syncwarp. What does not exist reads as 0.
template <typename Shape, typename T>
__device__ __forceinline__ void load_tile(int tile, const View& view, const Window& w, const CUtensorMap* map,
                                          uint64_t* barrier, int log2_rows, int lane) {
    if (!loads_in_bulk<Shape, T>(view, w))
        return load_tile_by_warp<Shape, T>(tile, view, w.batch, w.row, w.t0, w.rows, w.first, w.last, log2_rows, lane);
    if (lane != 0) return;
    for_boxes<Shape, T>(
        tile, w, [&](uint32_t to, int c0, int c1, int c2) { ptx::bulk_load_3d(to, map, barrier, c0, c1, c2); },
        [&](uint32_t to, int c1, int c2, int c3, int c4) { ptx::bulk_load_5d(to, map, barrier, 0, c1, c2, c3, c4); });
}

// The warp's writes to the tile must be fenced for the copy engine and synchronised. Bulk stores join the group that
// lane 0 commits next.
template <typename Shape, typename T>
__device__ __forceinline__ void store_tile(int tile, const View& view, const Window& w, const CUtensorMap* map,
                                           int log2_rows, int lane) {
    if (!Shape::template can_bulk<T> || view.bulk == 0 || !w.whole)
        return store_tile_by_warp<Shape, T>(tile, view, w.batch, w.row, w.t0, w.rows, w.first, w.last, log2_rows, lane);
    if (lane != 0) return;
    for_boxes<Shape, T>(
        tile, w, [&](uint32_t from, int c0, int c1, int c2) { ptx::bulk_store_3d(from, map, c0, c1, c2); },
        [&](uint32_t from, int c1, int c2, int c3, int c4) { ptx::bulk_store_5d(from, map, 0, c1, c2, c3, c4); });
}

}  // namespace flashscan::cuda
