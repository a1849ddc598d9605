// SPDX-License-Identifier: Apache-2.0
// Device code that kernels for few steps share: a thread owns V channels of one row, loads and stores them, and finds
// the row of the states that belongs to them.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/step_rows.h"
#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// The row of a pool of `rows` rows that an index names; -1 for padding. An index that names no row counts as padding,
// so that no index leads to an access outside of the arrays.
__device__ __forceinline__ int64_t row_of_pool(int32_t index, int64_t rows) {
    return index >= 0 && index < rows ? int64_t{index} : -1;
}
// The same for indices[i], or i where there are no indices.
__device__ __forceinline__ int64_t indexed_row(const int32_t* indices, int64_t i, int64_t rows) {
    return indices == nullptr ? i : row_of_pool(indices[i], rows);
}
// The index of a row as it is in memory. It is loaded before and looked at after what does not depend on it is loaded.
__device__ __forceinline__ int32_t index_of(const StateRows& states, uint32_t row) {
    return states.indices == nullptr ? static_cast<int32_t>(row) : states.indices[row];
}

// V elements that are loaded and stored at once. Pairs of 16-bit elements stay together in a word until they are
// computed with: to take them apart would be to wait for the load.
template <typename T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
    using Wide = typename Element<T>::Wide;
    static constexpr bool paired = sizeof(T) == 2;
    std::conditional_t<paired, uint32_t, T> part[paired ? V / 2 : V];

    __device__ __forceinline__ Wide get(int v) const {
        if constexpr (paired)
            return Element<T>::widen_half(part[v / 2], v % 2);
        else
            return part[v];
    }
    static __device__ __forceinline__ Pack of(const Wide (&values)[V]) {
        Pack pack;
        if constexpr (paired) {
#pragma unroll
            for (int v = 0; v < V; v += 2) pack.part[v / 2] = Element<T>::narrow_pair(values[v], values[v + 1]);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) pack.part[v] = values[v];
        }
        return pack;
    }
    __device__ __forceinline__ void load_one(int v, const char* from) {
        if constexpr (paired)
            part[v / 2] = with_half(part[v / 2], *reinterpret_cast<const uint16_t*>(from), v % 2);
        else
            part[v] = *reinterpret_cast<const T*>(from);
    }
    __device__ __forceinline__ void store_one(int v, char* to) const {
        if constexpr (paired)
            *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(part[v / 2] >> (v % 2 * 16));
        else
            *reinterpret_cast<T*>(to) = part[v];
    }
};
template <typename T, int V>
__device__ __forceinline__ void widen(const Pack<T, V>& pack, typename Element<T>::Wide (&to)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = pack.get(v);
}

// The steps of a row of the states: of a batch entry, or of a packed sequence.
struct StepSpan {
    uint32_t batch, begin, steps;

    static __device__ __forceinline__ StepSpan of(const SequenceOffsets& offsets, int64_t time, uint32_t row) {
        if (offsets.data == nullptr) return {row, 0, static_cast<uint32_t>(time)};
        const int64_t begin = load_offset(offsets, row), end = load_offset(offsets, row + 1);
        return {0, static_cast<uint32_t>(begin), static_cast<uint32_t>(max(end - begin, int64_t{0}))};
    }
    __device__ __forceinline__ uint32_t time_of(uint32_t step, bool down) const {
        return begin + (down ? steps - 1 - step : step);
    }
    // Whether a step is reset, as it is in memory.
    __device__ __forceinline__ uint8_t reset_at(const uint8_t* resets, int64_t times, uint32_t time) const {
        return resets == nullptr ? uint8_t{0} : resets[batch * times + time];
    }
};

// The channels of a thread whose states have type R: 16 bytes of them.
template <typename R>
constexpr int step_channels = 16 / static_cast<int>(sizeof(R));

template <int V>
struct StepPack {
    const StepParams& s;
    uint32_t row, first, channels;  // the row of the states, the first channel, and the channels of a row
    StepSpan span;

    static __device__ __forceinline__ StepPack here(const StepParams& s, const SequenceOffsets& offsets, int64_t time,
                                                    int64_t channels) {
        const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, row = quotient(thread, s.by_packs);
        const uint32_t pack = thread - row * s.packs;
        StepPack own{s, row, s.whole ? pack * V : pack, static_cast<uint32_t>(channels), {}};
        if (thread < s.threads)
            own.span = StepSpan::of(offsets, time, row);
        else
            own.channels = 0;
        return own;
    }
    __device__ __forceinline__ bool exists() const { return first < channels; }
    __device__ __forceinline__ uint32_t channel(int v) const { return first + v * (s.whole ? 1 : s.packs); }

    // Loads from and stores to elements that lie `step` bytes apart.
    template <typename T>
    __device__ __forceinline__ void load(const char* from, int64_t step, Pack<T, V>& pack) const {
        if (s.whole) {
            pack = *reinterpret_cast<const Pack<T, V>*>(from + first * static_cast<int64_t>(sizeof(T)));
            return;
        }
        pack = {};
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (channel(v) < channels) pack.load_one(v, from + channel(v) * step);
    }
    template <typename T>
    __device__ __forceinline__ void store(char* to, int64_t step, const Pack<T, V>& pack) const {
        if (s.whole) {
            *reinterpret_cast<Pack<T, V>*>(to + first * static_cast<int64_t>(sizeof(T))) = pack;
            return;
        }
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (channel(v) < channels) pack.store_one(v, to + channel(v) * step);
    }
    // The same at a step of a tensor.
    template <typename T>
    __device__ __forceinline__ void load(const View& view, uint32_t time, Pack<T, V>& pack) const {
        load(view.data + span.batch * view.batch + time * view.time, view.row, pack);
    }
    template <typename X>
    __device__ __forceinline__ void store(const View& view, uint32_t time,
                                          const typename Element<X>::Wide (&values)[V]) const {
        store(view.data + span.batch * view.batch + time * view.time, view.row, Pack<X, V>::of(values));
    }

    // Loads the states, zeros where there are none.
    template <typename R>
    __device__ __forceinline__ void load_states(int64_t of_row, Pack<R, V>& h) const {
        h = {};
        if (of_row >= 0 && s.states.in != nullptr) load(s.states.in + of_row * s.states.in_step, sizeof(R), h);
    }
    template <typename R>
    __device__ __forceinline__ void store_states(int64_t of_row, const Pack<R, V>& h) const {
        if (of_row >= 0 && s.states.out != nullptr) store(s.states.out + of_row * s.states.out_step, sizeof(R), h);
    }
};

}  // namespace flashscan::cuda
