// SPDX-License-Identifier: Apache-2.0
// Elements of a custom operator in registers, as device/scan/element_scan.cuh takes operators. Compiled at run time.
#pragma once

#include "cuda/device/scan/element_scan.cuh"

namespace flashscan::cuda {

// The largest power of two that divides `bytes`, up to `most`.
constexpr int alignment_in(int bytes, int most) {
    int alignment = 1;
    while (alignment < most && bytes % (2 * alignment) == 0) alignment *= 2;
    return alignment;
}

// Words: of bytes the compiler would keep every one apart.
template <int Bytes>
struct alignas(Bytes % 4 == 0 ? alignment_in(Bytes, 16) : 4) CustomElement {
    uint32_t words[(Bytes + 3) / 4];
};

// Rare, and no part of the code that is compiled for every step.
inline __device__ __noinline__ void copy_bytes(void* to, const void* from, int bytes) {
#pragma unroll 1
    for (int i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
}

// Functor: made of the operator's state, over pointers.
template <typename Functor>
struct CustomScanOperator {
    static constexpr int bytes = Functor::bytes, state_bytes = bytes;
    static constexpr bool has_identity = false, has_parts = true, has_gradients = false;
    static constexpr bool whole_words = bytes % 4 == 0;
    using Element = CustomElement<bytes>;

    void* state;

    __device__ __forceinline__ CustomScanOperator(int32_t, const void* given) : state(const_cast<void*>(given)) {}

    // The user's function is promised this alignment.
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        struct alignas(bytes % 4 == 0 ? alignment_in(bytes, 256) : 4) Aligned {
            Element element;
        };
        const Aligned left{l}, right{r};
        Aligned out;
        Functor{state}(&left, &right, &out);
        return out.element;
    }
    __device__ __forceinline__ Element combine_rarely(const Element& l, const Element& r) const {
        return combine(l, r);
    }
    __device__ __forceinline__ Element load(const char* from, bool aligned) const {
        if (whole_words && aligned) return *reinterpret_cast<const Element*>(from);
        return load_state(from);
    }
    __device__ __forceinline__ void store(char* to, const Element& y, bool aligned) const {
        if (whole_words && aligned)
            *reinterpret_cast<Element*>(to) = y;
        else
            store_state(to, y);
    }
    __device__ __forceinline__ Element load_state(const char* from) const {
        Element x;
        copy_bytes(&x, from, bytes);
        return x;
    }
    __device__ __forceinline__ void store_state(char* to, const Element& y) const {
        const Element apart = y;
        copy_bytes(to, &apart, bytes);
    }
};

}  // namespace flashscan::cuda
