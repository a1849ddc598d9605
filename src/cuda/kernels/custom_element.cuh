// SPDX-License-Identifier: Apache-2.0
// Elements of a custom operator in registers, as element_scan.cuh takes operators. Compiled at run time.
#pragma once

#include "cuda/kernels/element_scan.cuh"

namespace flashscan::cuda {

// The largest power of two that divides `bytes`, up to `most`.
constexpr int alignment_in(int bytes, int most) {
    int alignment = 1;
    while (alignment < most && bytes % (2 * alignment) == 0) alignment *= 2;
    return alignment;
}

template <int Bytes>
struct alignas(alignment_in(Bytes, 16)) CustomElement {
    unsigned char data[Bytes];
};

// Functor: made of the operator's state, over pointers.
template <typename Functor>
struct CustomScanOperator {
    static constexpr int bytes = Functor::bytes, state_bytes = bytes;
    static constexpr bool has_identity = false;
    using Element = CustomElement<bytes>;

    void* state;

    __device__ __forceinline__ CustomScanOperator(int32_t, const void* given) : state(const_cast<void*>(given)) {}

    // The user's function is promised this alignment.
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        struct alignas(alignment_in(bytes, 256)) Aligned {
            Element element;
        };
        const Aligned left{l}, right{r};
        Aligned out;
        Functor{state}(&left, &right, &out);
        return out.element;
    }
    __device__ __forceinline__ Element load(const char* from, bool aligned) const {
        return aligned ? *reinterpret_cast<const Element*>(from) : load_state(from);
    }
    __device__ __forceinline__ void store(char* to, const Element& y, bool aligned) const {
        if (aligned)
            *reinterpret_cast<Element*>(to) = y;
        else
            store_state(to, y);
    }
    __device__ __forceinline__ Element load_state(const char* from) const {
        Element x;
        memcpy(&x, from, bytes);
        return x;
    }
    __device__ __forceinline__ void store_state(char* to, const Element& y) const { memcpy(to, &y, bytes); }
};

}  // namespace flashscan::cuda
