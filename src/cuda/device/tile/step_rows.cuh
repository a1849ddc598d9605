// SPDX-License-Identifier: Apache-2.0
// What a thread of a kernel for few steps owns, V channels of one row, and how it loads and stores them; and which row
// of the states is meant.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/step_rows.h"
#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// The row of the pool that indices[i] names, or i without indices; -1 for padding. An index that names no row of the
// pool counts as padding, so that no index leads to an access outside of the arrays.
__device__ __forceinline__ int64_t indexed_row(const int32_t* indices, int64_t i, int64_t pool_rows) {
    if (indices == nullptr) return i;
    const int64_t row = indices[i];
    return row >= 0 && row < pool_rows ? row : -1;
}

// V elements that are loaded and stored at once.
template <typename T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
    T of[V];
};
template <typename T, int V>
__device__ __forceinline__ void widen(const Pack<T, V>& pack, typename Element<T>::Wide (&to)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = Element<T>::widen(pack.of[v]);
}

// The channels of a thread whose states have type R: 16 bytes of them.
template <typename R>
constexpr int step_channels = 16 / static_cast<int>(sizeof(R));

template <int V>
struct StepPack {
    const StepParams& s;
    int64_t row, batch, begin, steps;  // the row of the states; the batch entry, the first step and the steps of it
    int64_t channels, first;           // the row's channels, and the first of the thread

    static __device__ __forceinline__ StepPack here(const StepParams& s, const SequenceOffsets& offsets, int64_t time,
                                                    int64_t channels) {
        const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, row = quotient(thread, s.by_packs);
        const uint32_t pack = thread - row * s.packs;
        StepPack own{s, row, row, 0, time, channels, pack};
        if (s.whole) own.first = int64_t{pack} * V;
        if (thread >= s.threads) own.channels = 0;
        if (offsets.data == nullptr || own.channels == 0) return own;
        own.batch = 0;
        own.begin = load_offset(offsets, row);
        own.steps = max(load_offset(offsets, row + 1) - own.begin, int64_t{0});
        return own;
    }
    __device__ __forceinline__ bool exists() const { return first < channels; }
    __device__ __forceinline__ int64_t channel(int v) const { return first + (s.whole ? v : v * int64_t{s.packs}); }
    __device__ __forceinline__ int64_t time_of(int64_t step, bool down) const {
        return begin + (down ? steps - 1 - step : step);
    }

    // Loads from and stores to elements that lie `step` bytes apart.
    template <typename T>
    __device__ __forceinline__ void load(const char* from, int64_t step, Pack<T, V>& pack) const {
        if (s.whole) {
            pack = *reinterpret_cast<const Pack<T, V>*>(from + first * static_cast<int64_t>(sizeof(T)));
            return;
        }
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (channel(v) < channels) pack.of[v] = *reinterpret_cast<const T*>(from + channel(v) * step);
    }
    template <typename T>
    __device__ __forceinline__ void store(char* to, int64_t step, const Pack<T, V>& pack) const {
        if (s.whole) {
            *reinterpret_cast<Pack<T, V>*>(to + first * static_cast<int64_t>(sizeof(T))) = pack;
            return;
        }
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (channel(v) < channels) *reinterpret_cast<T*>(to + channel(v) * step) = pack.of[v];
    }
    // The same at a step of a tensor.
    template <typename T>
    __device__ __forceinline__ void load(const View& view, int64_t time, Pack<T, V>& pack) const {
        load(view.data + batch * view.batch + time * view.time, view.row, pack);
    }
    template <typename X>
    __device__ __forceinline__ void store(const View& view, int64_t time,
                                          const typename Element<X>::Wide (&values)[V]) const {
        Pack<X, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) pack.of[v] = Element<X>::narrow(values[v]);
        store(view.data + batch * view.batch + time * view.time, view.row, pack);
    }

    // The row of the states in memory; -1 for padding.
    __device__ __forceinline__ int64_t state_row() const {
        return indexed_row(s.states.indices, row, s.states.pool_rows);
    }
    // Loads the states, zeros where there are none.
    template <typename R>
    __device__ __forceinline__ void load_states(int64_t of_row, Pack<R, V>& h) const {
#pragma unroll
        for (int v = 0; v < V; ++v) h.of[v] = R{};
        if (of_row >= 0 && s.states.in != nullptr) load(s.states.in + of_row * s.states.in_step, sizeof(R), h);
    }
    template <typename R>
    __device__ __forceinline__ void store_states(int64_t of_row, const Pack<R, V>& h) const {
        if (of_row >= 0 && s.states.out != nullptr) store(s.states.out + of_row * s.states.out_step, sizeof(R), h);
    }
};

}  // namespace flashscan::cuda
