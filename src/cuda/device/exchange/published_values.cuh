// SPDX-License-Identifier: Apache-2.0
// Values that blocks of one launch publish once for later blocks, in global memory whose bits are all ones before the
// launch.
//
// A value is written and read in words of 8 bytes, each by a single access, and a word of ones means "not yet". No word
// that is published has that value, so the data are their own flag, and no flags and fences are needed. A reader that
// waits polls a word until it has arrived. Integers of 8 bytes may be all ones, and are therefore published in two
// words, each of which has half of their bits and zeros.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device/ptx/global_words.cuh"

namespace flashscan::cuda {

// The values of a lane's V rows.
template <typename T, int V>
struct LaneValues {
    T of[V];
};

// Whether a word of a value of type T may be all ones without being NaN.
template <typename T>
inline constexpr bool has_all_bits = std::is_integral_v<T> && sizeof(T) >= 8;
template <typename T, int V>
inline constexpr bool has_all_bits<LaneValues<T, V>> = std::is_integral_v<T>&& V * sizeof(T) >= 8;

// A value of type T as words of 8 bytes.
template <typename T, bool Halves = has_all_bits<T>>
union Words {
    static constexpr int count = static_cast<int>((sizeof(T) + 7) / 8);
    uint64_t words[count];
    T value;

    __device__ __forceinline__ Words() {
#pragma unroll
        for (int i = 0; i < count; ++i) words[i] = 0;
    }
    __device__ __forceinline__ void set(const T& from) { value = from; }
    __device__ __forceinline__ T get() const { return value; }
};
template <typename T>
union Words<T, true> {
    static constexpr int count = static_cast<int>(sizeof(T) / 4);
    uint64_t words[count];

    __device__ __forceinline__ Words() {}
    __device__ __forceinline__ void set(const T& from) {
        uint32_t halves[count];
        memcpy(halves, &from, sizeof from);
#pragma unroll
        for (int i = 0; i < count; ++i) words[i] = halves[i];
    }
    __device__ __forceinline__ T get() const {
        uint32_t halves[count];
#pragma unroll
        for (int i = 0; i < count; ++i) halves[i] = static_cast<uint32_t>(words[i]);
        T value;
        memcpy(&value, halves, sizeof value);
        return value;
    }
};

template <typename T>
__device__ __forceinline__ void publish_value(void* memory, int64_t index, const T& value) {
    Words<T> u;
    u.set(value);
    uint64_t* const to = static_cast<uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i)
        // Only NaNs in the caller's data can have the bits of "not yet"; they are replaced by NaNs of other bits.
        ptx::store_word(to + i, u.words[i] == ptx::empty_word ? ptx::empty_word ^ 0x8000000080000000ULL : u.words[i]);
}
// The same of a value without NaNs if it is `ready`. Otherwise it leaves "not yet" there, without a branch.
template <typename T>
__device__ __forceinline__ void publish_if(bool ready, void* memory, int64_t index, const T& value) {
    Words<T> u;
    u.set(value);
    uint64_t* const to = static_cast<uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i) ptx::store_word(to + i, ready ? u.words[i] : ptx::empty_word);
}

// Loads the words of a value without waiting; those that have not been published are all ones.
template <typename T>
__device__ __forceinline__ void ask_for_value(const void* memory, int64_t index, Words<T>& u) {
    const uint64_t* const from = static_cast<const uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i) u.words[i] = ptx::load_word(from + i);
}
// Waits for the words that are missing in `u`.
template <typename T>
__device__ __forceinline__ T await_value(const void* memory, int64_t index, Words<T> u) {
    const uint64_t* const from = static_cast<const uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i)
        while (u.words[i] == ptx::empty_word) u.words[i] = ptx::load_word(from + i);
    return u.get();
}
template <typename T>
__device__ __forceinline__ T await_value(const void* memory, int64_t index) {
    Words<T> u;
    ask_for_value(memory, index, u);
    return await_value(memory, index, u);
}

}  // namespace flashscan::cuda
