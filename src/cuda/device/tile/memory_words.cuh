// SPDX-License-Identifier: Apache-2.0
// Loads and stores of single elements and words, which the copies of tiles are made of.
#pragma once

#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// All dynamic shared memory of a block.
__device__ __forceinline__ char* shared_memory() {
    extern __shared__ __align__(16) char memory[];
    return memory;
}

// Loads one element, whose address is aligned as its type needs; `to` receives its bits.
template <typename T>
__device__ __forceinline__ void load_element(const char* from, uint32_t* to) {
    if constexpr (sizeof(T) == 2) {
        *to = *reinterpret_cast<const uint16_t*>(from);
    } else if constexpr (sizeof(T) == 1) {
        *to = *reinterpret_cast<const uint8_t*>(from);
    } else {
        constexpr int part = alignof(T) < 8 ? 1 : 2;  // words in one access
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; i += part) load_words<part>(from + 4 * i, to + i);
    }
}
template <typename T>
__device__ __forceinline__ void store_element(const uint32_t* from, char* to) {
    if constexpr (sizeof(T) == 2) {
        *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(*from);
    } else if constexpr (sizeof(T) == 1) {
        *reinterpret_cast<uint8_t*>(to) = static_cast<uint8_t>(*from);
    } else {
        constexpr int part = alignof(T) < 8 ? 1 : 2;
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; i += part) store_words<part>(from + i, to + 4 * i);
    }
}

template <typename T>
__device__ __forceinline__ void copy_element(const char* from, char* to) {
    uint32_t bits[(sizeof(T) + 3) / 4];
    load_element<T>(from, bits);
    store_element<T>(bits, to);
}
template <int Words>
__device__ __forceinline__ void copy_words(const char* from, char* to) {
    uint32_t bits[Words];
    load_words<Words>(from, bits);
    store_words<Words>(bits, to);
}

// Whether the address of a 16-bit element is not a multiple of 4, so that a pair that begins there lies in two words.
__device__ __forceinline__ bool is_odd(const char* address) { return (reinterpret_cast<uintptr_t>(address) & 2) != 0; }
// The address of the word that holds the element. It is computed from the pointer, since a pointer made from an integer
// could point to any kind of memory and would need generic accesses.
__device__ __forceinline__ char* word_below(char* address) { return is_odd(address) ? address - 2 : address; }
// The word made of the upper half of one word and the lower half of the next.
__device__ __forceinline__ uint32_t across(uint32_t word, uint32_t next) { return __funnelshift_r(word, next, 16); }

}  // namespace flashscan::cuda
