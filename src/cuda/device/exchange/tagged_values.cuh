// SPDX-License-Identifier: Apache-2.0
// Values that blocks of one launch send each other again and again through the same global memory.
//
// A value is written and read in words of 16 bytes, each by a single access, of which half is a tag: the number of the
// wave, and a mark in the lowest bit. A reader polls a word until it has the number of the reader's wave, so the data
// are their own flag, and no flags and fences are needed.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/ptx/tagged_words.cuh"

namespace flashscan::cuda {

template <typename T>
__device__ __forceinline__ void send_value(void* memory, int64_t index, const T& value, uint64_t tag) {
    Words<T> u;
    u.set(value);
    ptx::TaggedWord* const to = static_cast<ptx::TaggedWord*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i) ptx::store_tagged(to + i, u.words[i], tag);
}

// Waits for `count` values of a lane, at most Most, which lie Stride apart, and calls take(i, value, mark) for each.
// All are loaded at once: one after another, each would take a round trip to memory.
template <typename T, int Most, int Stride = 1, typename Take>
__device__ __forceinline__ void await_values(const void* memory, int64_t index, int count, uint64_t wave, Take&& take) {
    constexpr int words = Words<T>::count;
    const ptx::TaggedWord* const from = static_cast<const ptx::TaggedWord*>(memory) + index * words;
    ptx::TaggedWord seen[Most * words];
    bool all;
    do {
        all = true;
#pragma unroll
        for (int i = 0; i < Most * words; ++i)
            if (i < count * words) seen[i] = ptx::load_tagged(from + i / words * Stride * words + i % words);
#pragma unroll
        for (int i = 0; i < Most * words; ++i)
            if (i < count * words) all = all && seen[i].tag >> 1 == wave;
    } while (!all);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < Most; ++i) {
        Words<T> u;
#pragma unroll
        for (int n = 0; n < words; ++n) u.words[n] = seen[i * words + n].word;
        if (i < count) take(i, u.get(), (seen[i * words].tag & 1) != 0);
    }
}

}  // namespace flashscan::cuda
