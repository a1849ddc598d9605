// SPDX-License-Identifier: Apache-2.0
// Copies of tiles between memory and registers, chosen by how tensors lie. `fetch` starts the loads of a tile and
// `arrange` gives each lane its steps, so that the loads of several tensors are in flight at once; `store` writes a
// tile back.
//
// Channels innermost, a lane loads its own rows step by step, and what a warp loads of a step lies together. Time
// innermost, lanes exchange what the warp loads in turn through a buffer of the warp's in shared memory. Where tiles
// are staged, what was fetched lies there, and asynchronous copies are waited for before `arrange`.
// Loads and stores are plain: on an H200 hints to evict first cost 10 % of the time.
#pragma once

#include "cuda/device/tile/time_vectors.cuh"
#include "cuda/device/tile/time_words.cuh"

namespace flashscan::cuda {

template <typename T, typename Shape>
struct ChannelCopies {
    using Tile = Steps<T, Shape>;
    using Fetched = Tile;
    static constexpr int words = Tile::count / Tile::L;  // of a step
    static constexpr int buffer_bytes = 0;
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
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int shift, int64_t time, char*,
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
using Copies = std::conditional_t<
    !Shape::time_inner, ChannelCopies<T, Shape>,
    std::conditional_t<Shape::access == Access::time_vectors, TimeVectors<T, Shape>, TimeWords<T, Shape>>>;

// Where the tensors of a tile lie in its warp's buffer.
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
