// SPDX-License-Identifier: Apache-2.0
// Copies of tiles of aligned packs of rows, channels innermost, with the interface of skewed_pairs.cuh.
#pragma once

#include "cuda/device/tile/copies.cuh"

namespace flashscan::cuda {

struct AlignedPart {
    static constexpr bool whole = false;
    static __device__ __forceinline__ AlignedPart of(const Place&, int64_t, int64_t, int) { return {}; }
};
template <typename T, typename Shape>
struct AlignedPacks {
    using Base = ChannelCopies<T, Shape>;
    using Part = AlignedPart;
    template <bool>
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, Part, int shift, int64_t time,
                                                 typename Base::Tile& tile) {
        Base::fetch(view, at, shift, time, nullptr, tile);
    }
    // Loads one element a step for all rows of the pack.
    static __device__ __forceinline__ void fetch_shared(const View& view, const Place& at, typename Base::Tile& tile) {
        const char* from = Base::address(view, at, 0);
#pragma unroll
        for (int i = 0; i < Base::Tile::L; ++i, from += view.time) {
            T element{};
            if (i < at.steps) element = *reinterpret_cast<const T*>(from);
            const auto wide = Element<T>::widen(element);
#pragma unroll
            for (int v = 0; v < Base::Tile::V; ++v) tile.set(i, v, wide);
        }
    }
    static __device__ __forceinline__ void arrange(const View&, const Place&, int, typename Base::Tile&) {}
    static __device__ __forceinline__ void store(const typename Base::Tile& tile, const View& view, const Place& at,
                                                 Part) {
        Base::store(tile, view, at, nullptr);
    }
};

}  // namespace flashscan::cuda
