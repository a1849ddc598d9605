// SPDX-License-Identifier: Apache-2.0
// Values that blocks of one launch publish once for later blocks, in global memory whose bits are all ones before the
// launch.
//
// A value is written and read in words of 8 bytes, each by a single access, and a word of ones means "not yet". No word
// that is published has that value, so the data are their own flag, and no flags and fences are needed. A reader that
// waits polls a word until it has arrived.
#pragma once

#include "cuda/device/ptx/global_words.cuh"

namespace flashscan::cuda {

// A value of type T as words of 8 bytes.
template <typename T>
union Words {
    static constexpr int count = static_cast<int>((sizeof(T) + 7) / 8);
    uint64_t words[count];
    T value;

    __device__ __forceinline__ Words() {
#pragma unroll
        for (int i = 0; i < count; ++i) words[i] = 0;
    }
};

template <typename T>
__device__ __forceinline__ void publish_value(void* memory, int64_t index, const T& value) {
    Words<T> u;
    u.value = value;
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
    u.value = value;
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
    return u.value;
}
template <typename T>
__device__ __forceinline__ T await_value(const void* memory, int64_t index) {
    Words<T> u;
    ask_for_value(memory, index, u);
    return await_value(memory, index, u);
}

}  // namespace flashscan::cuda
