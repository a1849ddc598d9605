// SPDX-License-Identifier: Apache-2.0
// Copies of tiles between global memory and registers; `Access` chooses among them. `fetch` starts the loads of a tile,
// `arrange` gives each lane its steps, so that the loads of several tensors are in flight at once, and `store` writes a
// tile back.
//
// With channels innermost a lane loads its own rows step by step; the loads of a warp for one step are coalesced. With
// time innermost asynchronous copies put coalesced vectors or words into the warp's buffer in shared memory, where
// lanes find their steps; such tiles are staged, and the kernel waits for them before `arrange`. With
// Access::time_vectors loads of vectors pass through registers (skewed_vectors.cuh), and only the size of the buffer is
// told here. Loads and stores have no cache hints: on an H200 "evict first" made these kernels 10 % slower. Loads of
// short rows gain by one.
#pragma once

#include "cuda/device/tile/time_vectors.cuh"
#include "cuda/device/tile/time_words.cuh"

namespace flashscan::cuda {

template <typename T, typename Shape>
struct ChannelCopies {
    using Tile = Steps<T, Shape>;
    using Fetched = Tile;
    static constexpr int words = Tile::count / Tile::L;  // 32-bit words of a lane's step
    static constexpr int buffer_bytes = 0;
    static constexpr bool packs = Shape::access == Access::channel_packs;

    static __device__ __forceinline__ char* address(const View& view, const Place& at, int shift) {
        return view.data + at.batch * view.batch + at.row * view.row + (at.t0 + shift) * view.time;
    }

    // Whether elements are longer than the alignment that they are sure to have. Tiles in which all are aligned to
    // their length are then loaded and stored by whole elements nevertheless.
    static constexpr bool parts = !packs && sizeof(T) > alignof(T);

    template <bool Whole = packs>
    static __device__ __forceinline__ void load_step(const char* from, uint32_t* to) {
        if constexpr (Whole)
            load_words<words>(from, to);
        else
            load_element<T>(from, to);
    }
    template <bool Whole = packs>
    static __device__ __forceinline__ void store_step(const uint32_t* from, char* to) {
        if constexpr (Whole)
            store_words<words>(from, to);
        else
            store_element<T>(from, to);
    }
    // For tiles of which all steps exist.
    static __device__ __forceinline__ bool all_whole(const char* address, const View& view) {
        return parts && __all_sync(0xffffffffU, (reinterpret_cast<uintptr_t>(address) | view.time) % sizeof(T) == 0);
    }
    template <bool Whole>
    static __device__ __forceinline__ void load_all(const char* from, const View& view, Tile& tile) {
#pragma unroll
        for (int i = 0; i < Tile::L; ++i, from += view.time) load_step<Whole>(from, tile.word + i * words);
    }
    template <bool Whole>
    static __device__ __forceinline__ void store_all(const Tile& tile, const View& view, char* to) {
#pragma unroll
        for (int i = 0; i < Tile::L; ++i, to += view.time) store_step<Whole>(tile.word + i * words, to);
    }

    // Loads the lane's steps moved later by `shift`. Those past `time` and those that do not exist become zero bits.
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int shift, int64_t time, char*,
                                                 Fetched& tile) {
        const char* from = address(view, at, shift);
        const int last = static_cast<int>(min(static_cast<int64_t>(at.steps), time - shift - at.t0));
        if (__all_sync(0xffffffffU, last == Tile::L)) {
            if (all_whole(from, view))
                load_all<true>(from, view, tile);
            else
                load_all<packs>(from, view, tile);
        } else {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, from += view.time) {
#pragma unroll
                for (int k = 0; k < words; ++k) tile.word[i * words + k] = 0;
                if (i < last) load_step(from, tile.word + i * words);
            }
        }
    }

    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place&, char*, Tile& tile) {
        tile = fetched;
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, char*) {
        char* to = address(view, at, 0);
        if (__all_sync(0xffffffffU, at.steps == Tile::L)) {
            if (all_whole(to, view))
                store_all<true>(tile, view, to);
            else
                store_all<packs>(tile, view, to);
        } else {
#pragma unroll
            for (int i = 0; i < Tile::L; ++i, to += view.time)
                if (i < at.steps) store_step(tile.word + i * words, to);
        }
    }
};

template <typename T, typename Shape>
using Copies = std::conditional_t<
    !Shape::time_inner, ChannelCopies<T, Shape>,
    std::conditional_t<Shape::access == Access::time_vectors, TimeVectors<T, Shape>, TimeWords<T, Shape>>>;

// The offsets of the tensors' tiles in the warp's buffer. Tiles that are not staged take turns in it.
template <typename X, typename G, typename Shape>
struct TileBuffer {
    static constexpr bool staged = Shape::access == Access::time;
    static constexpr int data_bytes = Copies<X, Shape>::buffer_bytes, gate_bytes = Copies<G, Shape>::buffer_bytes;
    static constexpr int gate = 0, source = staged ? gate_bytes : 0, states = staged ? gate_bytes + data_bytes : 0;
    static constexpr int bytes = staged                    ? gate_bytes + (Shape::backward ? 2 : 1) * data_bytes
                                 : data_bytes > gate_bytes ? data_bytes
                                                           : gate_bytes;
};

}  // namespace flashscan::cuda
