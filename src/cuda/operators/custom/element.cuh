// SPDX-License-Identifier: Apache-2.0
// A custom operator in the form that device/scan/element_scan.cuh takes, with its elements in registers. It is compiled
// at run time.
#pragma once

#include "cuda/device/scan/element_scan.cuh"

namespace flashscan::cuda {

// The largest power of two that divides `bytes`, up to `most`.
constexpr int alignment_in(int bytes, int most) {
    int alignment = 1;
    while (alignment < most && bytes % (2 * alignment) == 0) alignment *= 2;
    return alignment;
}

// An element as 32-bit words: the compiler would keep each byte of an array of bytes in a register of its own.
template <int Bytes>
struct alignas(Bytes % 4 == 0 ? alignment_in(Bytes, 16) : 4) CustomElement {
    uint32_t words[(Bytes + 3) / 4];
};

// It is not inlined, because it is rarely called and would be compiled for every step.
inline __device__ __noinline__ void copy_bytes(void* to, const void* from, int bytes) {
#pragma unroll 1
    for (int i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
}

// Functor is a class around the user's function. It is made from the operator's state and takes pointers to elements.
template <typename Functor>
struct CustomScanOperator {
    static constexpr int bytes = Functor::bytes, state_bytes = bytes;
    static constexpr bool has_identity = false, has_parts = true, has_gradients = false, has_index = false;
    static constexpr bool whole_words = bytes % 4 == 0;
    using Element = CustomElement<bytes>;

    void* state;

    __device__ __forceinline__ CustomScanOperator(int32_t, const void* given) : state(const_cast<void*>(given)) {}

    // The operands are copied to memory with the alignment that the interface promises the user's function.
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
