// SPDX-License-Identifier: Apache-2.0
// Groups of chunks, which let a chained scan of few rows do without a chain of all their chunks.
//
// The first 128 chunks of a row are a group, the next 128 are another one, and so on. Each chunk but the last of a
// group or of the row publishes its summary as soon as it has it, unless it overflowed. A warp of each chunk waits for
// the summaries of the earlier chunks of its group and composes them in a tree that is fixed by their places; the carry
// into the group then gives the carry into the chunk. The last chunk of a group publishes the carry into the next
// group. So only the carries into groups are a chain: a hop takes about a microsecond, in which an H100 moves 3 MB,
// where a group of f32 reads and writes 8 MB. Chained chunk by chunk, one row of 2^24 f32 takes ten times as long on an
// H100; bench/results/tried_operators.md has other lengths of groups and other ways to wait.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/scan/chained_sets.h"

namespace flashscan::cuda {

// Whether all words of a value that was asked for have arrived.
template <typename T>
__device__ __forceinline__ bool has_arrived(const Words<T>& u) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i) all = all && u.words[i] != ptx::empty_word;
    return all;
}

// Waits for `count` summaries, at most chunk_group, which are published at `first` and behind it, and composes them.
// All lanes of the warp call this, and all get the result.
template <typename Monoid>
__device__ __forceinline__ typename Monoid::Map compose_published(const void* memory, int64_t first, int count,
                                                                  int lane) {
    using Record = typename Monoid::Record;
    constexpr int each = chunk_group / 32;  // neighbouring summaries of a lane
    Words<Record> seen[each];
#pragma unroll
    for (int i = 0; i < each; ++i) seen[i].words[0] = ptx::empty_word;
    const int mine = count - lane * each;
    // All that are missing are loaded at once: one after another, each would take a round trip to memory.
    bool waits;
    do {
        waits = false;
#pragma unroll
        for (int i = 0; i < each; ++i)
            if (i < mine && !has_arrived(seen[i])) ask_for_value(memory, first + lane * each + i, seen[i]);
#pragma unroll
        for (int i = 0; i < each; ++i) waits = waits || (i < mine && !has_arrived(seen[i]));
    } while (__any_sync(0xffffffffU, waits));
    typename Monoid::Map all = Monoid::identity();
#pragma unroll
    for (int i = 0; i < each; ++i)
        if (i < mine) all = Monoid::compose(all, Monoid::to_map(seen[i].get()));
#pragma unroll 1
    for (int distance = 1; distance < 32; distance *= 2) {
        const typename Monoid::Map other = Monoid::shuffle_map(all, lane ^ distance);
        const bool is_late = (lane & distance) != 0;
        all = Monoid::compose(is_late ? other : all, is_late ? all : other);
    }
    return all;
}

}  // namespace flashscan::cuda
