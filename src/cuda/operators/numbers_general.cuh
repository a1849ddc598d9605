// SPDX-License-Identifier: Apache-2.0
// The kernel of "numbers" that takes every problem, forward without INDEX: complex products, packed sequences and what
// else numbers_chained.cuh, which is faster where it applies, does not take. It is element_scan
// (device/scan/element_scan.cuh, whose opening comment tells the formula, ownership, bytes and synchronisation) of
// elements of V neighbouring channels. Here is the operator that the scan is instantiated with.
#pragma once

#include "cuda/device/scan/element_scan.cuh"
#include "cuda/operators/element_numbers.cuh"
#include "cuda/operators/log_sum.cuh"
#include "math/operators.h"

namespace flashscan::cuda {

template <typename Operator, typename Wide>
__device__ __noinline__ Wide combine_apart(Wide l, Wide r) {
    return Operator::combine(l, r);
}
template <typename Operator>
constexpr bool is_long_operator = requires {
    Operator::is_long;
};
// Combines two numbers. A long operator is not inlined in f64, nor where it is rarely called, but for logaddexp in f32,
// which is short by the sum of log_sum.cuh.
template <typename Operator, bool rare, typename Wide>
__device__ __forceinline__ Wide combine_numbers(Wide l, Wide r) {
    if constexpr (std::is_same_v<Operator, combine::LogAddExp> && std::is_same_v<Wide, float>) {
        LogSum<float> y;
        y.begin(l);
        y.add(r);
        return y.value();
    } else if constexpr (is_long_operator<Operator> && (rare || std::is_same_v<Wide, double>)) {
        return combine_apart<Operator>(l, r);
    } else {
        return Operator::combine(l, r);
    }
}

template <typename X, int V, typename Operator>
struct Numbers {
    using Storage = cuda::Element<X>;
    using Wide = typename Storage::Wide;
    struct Element {
        Wide v[V];
    };
    static constexpr int bytes = V * static_cast<int>(sizeof(X)), state_bytes = V * static_cast<int>(sizeof(Wide));
    static constexpr int count = V, registers = V * ((static_cast<int>(sizeof(Wide)) + 3) / 4);
    static constexpr bool is_integer = combine::kind_of_number<X> == integer_number;
    static constexpr bool has_identity = true, has_parts = V > 1 || NumberPart<X>::count > 1;
    static constexpr bool has_gradients = !is_integer, has_index = false;
    static_assert(V == 1 || bytes == 4, "neighbouring numbers are one word");

    Numbers() = default;
    __device__ __forceinline__ Numbers(int32_t, const void*) {}

    template <bool rare = false>
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        Element y;
#pragma unroll
        for (int n = 0; n < V; ++n) y.v[n] = combine_numbers<Operator, rare>(l.v[n], r.v[n]);
        return y;
    }
    __device__ __forceinline__ Element combine_rarely(const Element& l, const Element& r) const {
        return combine<true>(l, r);
    }
    __device__ __forceinline__ Element identity() const {
        Element y;
#pragma unroll
        for (int n = 0; n < V; ++n) y.v[n] = combine::Identity<Operator, Wide>::get();
        return y;
    }

    __device__ __forceinline__ Element load(const char* from, bool aligned) const {
        Element x;
        if constexpr (V > 1 && is_integer) {
            if (aligned) {
                const uint32_t word = *reinterpret_cast<const uint32_t*>(from);
#pragma unroll
                for (int n = 0; n < V; ++n) x.v[n] = static_cast<X>(word >> (n * 8 * sizeof(X)));
                return x;
            }
        } else if constexpr (V == 2) {
            if (aligned) {
                const uint32_t word = *reinterpret_cast<const uint32_t*>(from);
                x.v[0] = Storage::widen_half(word, 0);
                x.v[1] = Storage::widen_half(word, 1);
                return x;
            }
        }
#pragma unroll
        for (int n = 0; n < V; ++n) x.v[n] = load_number<X>(from + n * sizeof(X), aligned);
        return x;
    }
    __device__ __forceinline__ void store(char* to, const Element& y, bool aligned) const {
        if constexpr (V > 1 && is_integer) {
            if (aligned) {
                uint32_t word = 0;
#pragma unroll
                for (int n = 0; n < V; ++n) word |= static_cast<uint32_t>(y.v[n]) << (n * 8 * sizeof(X));
                *reinterpret_cast<uint32_t*>(to) = word;
                return;
            }
        } else if constexpr (V == 2) {
            if (aligned) {
                *reinterpret_cast<uint32_t*>(to) = Storage::narrow_pair(y.v[0], y.v[1]);
                return;
            }
        }
#pragma unroll
        for (int n = 0; n < V; ++n) store_number<X>(to + n * sizeof(X), y.v[n], aligned);
    }
    __device__ __forceinline__ Element load_state(const char* from) const {
        Element x;
#pragma unroll
        for (int n = 0; n < V; ++n) x.v[n] = load_number<Wide>(from + n * sizeof(Wide), false);
        return x;
    }
    __device__ __forceinline__ void store_state(char* to, const Element& y) const {
#pragma unroll
        for (int n = 0; n < V; ++n) store_number<Wide>(to + n * sizeof(Wide), y.v[n], false);
    }
};

}  // namespace flashscan::cuda
