// SPDX-License-Identifier: Apache-2.0
// Moves the elements of a lane between memory and registers.
#pragma once

#include "cuda/kernels/element_place.cuh"

namespace flashscan::cuda {

template <typename Op, int L, int Warps>
struct ElementTile {
    using Element = typename Op::Element;
    using Place = ElementPlace<L, Warps>;

    const Op& op;
    const ElementGrid& g;
    const Place& at;

    __device__ __forceinline__ int64_t step_bytes() const {
        return (g.down != 0 ? -g.time_stride : g.time_stride) * Op::bytes;
    }

    __device__ __forceinline__ void load(const void* data, Element (&items)[L]) const {
        const char* from = static_cast<const char*>(data) + at.element(g, at.time(g, 0)) * Op::bytes;
#pragma unroll
        for (int i = 0; i < L; ++i, from += step_bytes())
            if (at.exists(i)) items[i] = op.load(from, g.aligned != 0);
    }
    __device__ __forceinline__ void store(void* data, const Element (&items)[L]) const {
        char* to = static_cast<char*>(data) + at.element(g, at.time(g, 0)) * Op::bytes;
#pragma unroll
        for (int i = 0; i < L; ++i, to += step_bytes())
            if (at.exists(i)) op.store(to, items[i], g.aligned != 0);
    }
    // As states.
    __device__ __forceinline__ void store_wide(void* data, const Element (&items)[L]) const {
        char* const to = static_cast<char*>(data);
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (at.exists(i)) op.store_state(to + at.element(g, at.time(g, i)) * Op::state_bytes, items[i]);
    }
};

}  // namespace flashscan::cuda
