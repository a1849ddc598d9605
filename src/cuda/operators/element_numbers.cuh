// SPDX-License-Identifier: Apache-2.0
// Loads and stores of real and complex numbers, and the kernel empty_gradients of rows and sequences without steps.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/operators/backward_params.h"

namespace flashscan::cuda {

// The parts that a number consists of.
template <typename X>
struct NumberPart {
    using Type = X;
    static constexpr int count = 1;
};
template <typename T>
struct NumberPart<Complex<T>> {
    using Type = T;
    static constexpr int count = 2;
};

// `whole` tells that a complex number is aligned to its size, not only to that of its parts.
template <typename X>
__device__ __forceinline__ typename Element<X>::Wide load_number(const char* from, bool whole) {
    using Part = typename NumberPart<X>::Type;
    if constexpr (NumberPart<X>::count == 2) {
        struct alignas(2 * sizeof(Part)) Pair {
            Part re, im;
        };
        if (whole) {
            const Pair pair = *reinterpret_cast<const Pair*>(from);
            return {pair.re, pair.im};
        }
        const Part* const parts = reinterpret_cast<const Part*>(from);
        return {parts[0], parts[1]};
    } else {
        return Element<X>::widen(*reinterpret_cast<const X*>(from));
    }
}
template <typename X>
__device__ __forceinline__ void store_number(char* to, typename Element<X>::Wide y, bool whole) {
    using Part = typename NumberPart<X>::Type;
    if constexpr (NumberPart<X>::count == 2) {
        struct alignas(2 * sizeof(Part)) Pair {
            Part re, im;
        };
        if (whole) {
            *reinterpret_cast<Pair*>(to) = {y.re, y.im};
            return;
        }
        reinterpret_cast<Part*>(to)[0] = y.re;
        reinterpret_cast<Part*>(to)[1] = y.im;
    } else {
        *reinterpret_cast<X*>(to) = Element<X>::narrow(y);
    }
}

// Writes GRAD|STATE_IN of rows and sequences without steps; a thread writes one number.
template <typename X>
__global__ void __launch_bounds__(256) empty_gradients(const __grid_constant__ EmptyGradientParams p) {
    using Wide = typename Element<X>::Wide;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (i >= p.numbers) return;
    if (p.offsets.data != nullptr) {
        const int64_t n = i / p.row_numbers;
        if (load_offset(p.offsets, n) < load_offset(p.offsets, n + 1)) return;
    }
    Wide g{};
    if (p.grad_state_out != nullptr)
        g = load_number<Wide>(static_cast<const char*>(p.grad_state_out) + i * sizeof(Wide), false);
    if (p.grad_reduced != nullptr)
        g = g + load_number<X>(static_cast<const char*>(p.grad_reduced) + i * sizeof(X), false);
    store_number<Wide>(static_cast<char*>(p.grad_state_in) + i * sizeof(Wide), g, false);
}

}  // namespace flashscan::cuda
