// SPDX-License-Identifier: Apache-2.0
// An element of a recurrent network, which is a unit of a head of a row: where it lies in the tensors of a call, and
// which sequence and resets apply to it at a step.
//
// A step's kernel may start before the product ahead of it has ended (programmatic dependent launch). So it loads the
// caller's tensors first, then waits for that launch, and only then reads or writes what the call itself computes.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/rnn/params.h"
#include "cuda/rnn/real.cuh"
#include "math/rnn.h"

namespace flashscan::cuda {

constexpr int rnn_threads = 128;

struct RnnElement {
    int64_t index, row, w;
    int64_t block, d;  // the element is number d of block `block`: a head of a row has a block of D elements

    __device__ __forceinline__ explicit RnnElement(const RnnParams& p)
        : RnnElement(p, static_cast<int64_t>(blockIdx.x) * rnn_threads + threadIdx.x) {}
    __device__ __forceinline__ RnnElement(const RnnParams& p, int64_t index)
        : index(index),
          row(index / p.width),
          w(index - row * p.width),
          block(index / p.dim),
          d(index - block * p.dim) {}
    __device__ __forceinline__ bool inside(const RnnParams& p) const { return row < p.rows; }
    // Its index in the carried states, [S, rows, H, D].
    __device__ __forceinline__ int64_t carried(const RnnParams& p, int s) const { return s * p.rows * p.width + index; }
    // Its index in STATE_IN and STATE_OUT, [S, state_rows, H, D].
    __device__ __forceinline__ int64_t state(const RnnParams& p, int s, int64_t n) const {
        return (s * p.state_rows + n) * p.width + w;
    }
    __device__ __forceinline__ int64_t tensor(const RnnTensorStrides& strides, int s, int64_t t) const {
        return s * strides.state + row * strides.batch + t * strides.time + w;
    }
    __device__ __forceinline__ int64_t kept(const RnnParams& p, int count, int k, int64_t t) const {
        return ((t * p.rows + row) * count + k) * p.width + w;
    }
    // Its index in factors, [rows, H, padded], and in products, [rows, H, G, padded].
    __device__ __forceinline__ int64_t factor(const RnnParams& p) const { return block * p.padded + d; }
    __device__ __forceinline__ int64_t product(const RnnParams& p, int gates, int gate) const {
        return (block * gates + gate) * p.padded + d;
    }
};

__device__ __forceinline__ int64_t time_of(const RnnParams& p, int64_t step) {
    return p.reverse != 0 ? p.time - 1 - step : step;
}

// The owner of an element's states at a step: the row of STATE_IN and STATE_OUT that they belong to, or -1 for none.
__device__ __forceinline__ int64_t owner_of(const RnnParams& p, const RnnElement& e, int64_t step) {
    if (step < 0 || step >= p.time) return -1;
    return p.sequence == nullptr ? e.row : p.sequence[time_of(p, step)];
}

__device__ __forceinline__ bool resets(const RnnParams& p, const RnnElement& e, int64_t step) {
    return p.reset != nullptr && p.reset[e.row * p.time + time_of(p, step)] != 0;
}

// Loads the states of owner n from `data` [S, state_rows, H, D]; they are zeros where it is null or n is -1.
template <typename Wide, int S>
__device__ __forceinline__ void load_states(const RnnParams& p, const RnnElement& e, const void* data, int64_t n,
                                            Wide (&state)[S]) {
    for (int s = 0; s < S; ++s)
        state[s] = data != nullptr && n >= 0 ? static_cast<const Wide*>(data)[e.state(p, s, n)] : Wide(0);
}
template <typename Wide, int S>
__device__ __forceinline__ void store_states(const RnnParams& p, const RnnElement& e, void* data, int64_t n,
                                             const Wide (&state)[S]) {
    if (data == nullptr || n < 0) return;
    for (int s = 0; s < S; ++s) static_cast<Wide*>(data)[e.state(p, s, n)] = state[s];
}

template <typename X>
__device__ __forceinline__ void store_narrow(void* data, int64_t index, typename Element<X>::Wide value) {
    static_cast<X*>(data)[index] = Element<X>::narrow(value);
}
template <typename X>
__device__ __forceinline__ typename Element<X>::Wide load_wide(const void* data, int64_t index) {
    return Element<X>::widen(static_cast<const X*>(data)[index]);
}

}  // namespace flashscan::cuda
