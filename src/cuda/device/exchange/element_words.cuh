// SPDX-License-Identifier: Apache-2.0
// Elements of any type, cut into 32-bit words, which lanes exchange by shuffles and blocks through global memory.
//
// Between blocks a 64-bit word carries 4 bytes of an element and the tag of its run. The host fills the memory with
// ones before the launch, and no tag is all ones, so every word shows by itself whether it has been written: no flags
// and no fences are needed, and an element may hold any bits. Word w of value i is at w * count + i, so that lanes that
// read neighbouring values read neighbouring words.
#pragma once

#include "cuda/device/ptx/global_words.cuh"

namespace flashscan::cuda {

// A run is the combination of consecutive steps of a row. An open run is still to be combined with what is before it; a
// closed one includes the begin of a sequence, so that nothing before it matters.
enum RunTag : int32_t {
    run_empty = 0,
    run_open = 1,
    run_closed = 2
};

template <typename Element>
struct Run {
    Element value;
    int32_t tag;
};

// The 32-bit words of an element.
template <typename Element>
struct ElementWords {
    static constexpr int count = static_cast<int>((sizeof(Element) + 3) / 4);
    static constexpr int batch = count < 16 ? count : 16;  // words that are read at once
    uint32_t words[count];

    __device__ __forceinline__ ElementWords() { words[count - 1] = 0; }
    __device__ __forceinline__ explicit ElementWords(const Element& value) : ElementWords() {
        memcpy(words, &value, sizeof value);
    }
    __device__ __forceinline__ void get(Element& value) const { memcpy(&value, words, sizeof value); }
};

template <typename Element>
__device__ __forceinline__ Run<Element> shuffle_run(const Run<Element>& run, int lane) {
    ElementWords<Element> words(run.value);
    Run<Element> other;
#pragma unroll
    for (int i = 0; i < words.count; ++i) words.words[i] = __shfl_sync(0xffffffffU, words.words[i], lane);
    words.get(other.value);
    other.tag = __shfl_sync(0xffffffffU, run.tag, lane);
    return other;
}

// Runs are published by their first Count words; a run that is awaited has zeros in the others.
template <typename Element, int Count = ElementWords<Element>::count>
__device__ __forceinline__ void publish_run(void* memory, int64_t count, int64_t index, const Run<Element>& run) {
    const ElementWords<Element> words(run.value);
    uint64_t* to = static_cast<uint64_t*>(memory) + index;
#pragma unroll
    for (int i = 0; i < Count; ++i, to += count)
        ptx::store_word(to, static_cast<uint64_t>(run.tag) << 32 | words.words[i]);
}

template <typename Element, int Count = ElementWords<Element>::count>
__device__ __forceinline__ Run<Element> await_run(const void* memory, int64_t count, int64_t index) {
    using Words = ElementWords<Element>;
    Words words;
#pragma unroll
    for (int i = Count; i < Words::count; ++i) words.words[i] = 0;
    Run<Element> run;
    run.tag = run_empty;
    const uint64_t* from = static_cast<const uint64_t*>(memory) + index;
#pragma unroll
    for (int first = 0; first < Count; first += Words::batch) {
        uint64_t word[Words::batch];
        bool written;
        do {
            written = true;
#pragma unroll
            for (int i = 0; i < Words::batch; ++i)
                if (first + i < Count) word[i] = ptx::load_word(from + (first + i) * count);
#pragma unroll
            for (int i = 0; i < Words::batch; ++i)
                if (first + i < Count) written = written && word[i] != ptx::empty_word;
        } while (!written);
#pragma unroll
        for (int i = 0; i < Words::batch; ++i)
            if (first + i < Count) words.words[first + i] = static_cast<uint32_t>(word[i]);
        run.tag = static_cast<int32_t>(word[0] >> 32);
    }
    words.get(run.value);
    return run;
}

}  // namespace flashscan::cuda
