// SPDX-License-Identifier: Apache-2.0
// How a lane combines the numbers of its tile: all into one, for the first pass of a scan, and one after the other from
// a carry, for the second.
//
// Quick      Minima and maxima of 16-bit numbers, and logaddexp of these and of f32, have a second way to combine
//            numbers, which suits most numbers and takes half the instructions or less. A lane asks once for all of its
//            numbers which way it has to take.
// Registers  16-bit numbers are widened in each pass. The compiler is kept from holding widened numbers from one pass
//            to the next, which would take as many registers again as the tile.
#pragma once

#include "cuda/device/ptx/extremum_of_pairs.cuh"
#include "cuda/device/ptx/held.cuh"
#include "cuda/device/ptx/quick_functions.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/operators/numbers_general.cuh"
#include "cuda/operators/packed_bytes.cuh"

namespace flashscan::cuda {

// Combines numbers one after the other, and holds what they have combined to. `Quick`, if a struct like this has one,
// is another, which suits most numbers and takes fewer instructions; its begin() returns whether it suits those that
// come.
template <typename Operator, typename Wide>
struct CombinedNumber {
    Wide y;
    __device__ __forceinline__ void begin(Wide first) { y = first; }
    __device__ __forceinline__ void add(Wide x) { y = combine_numbers<Operator, false>(y, x); }
    __device__ __forceinline__ Wide value() const { return y; }
};
template <typename Operator, typename X, typename Wide = typename Element<X>::Wide>
struct RunningNumber : CombinedNumber<Operator, Wide> {};
template <typename X>
struct RunningNumber<combine::LogAddExp, X, float> : LogSum<float> {
    using Quick = NearLogSum<sizeof(X) == 2>;
};

template <bool Max>
__device__ __forceinline__ float extremum_of(float a, float b) {
    return Max ? ptx::greatest_of(a, b) : ptx::least_of(a, b);
}

// The numbers of a lane's tile in the order of the scan.
template <typename X, typename Shape, bool Down>
struct LaneNumbers {
    using Tile = Steps<X, Shape>;
    using Wide = typename Tile::Wide;
    template <typename Operator>
    using Bytes = PackedBytes<Operator, Shape, Down>;  // of 8-bit numbers
    static constexpr int L = Shape::L;
    Tile& tile;

    // The step in the order of memory that is the k-th in the order of the scan.
    static __device__ __forceinline__ constexpr int step(int k) { return Down ? L - 1 - k : k; }
    __device__ __forceinline__ Wide get(int k, int v) const { return tile.get(step(k), v); }
    // Makes the compiler widen numbers that are narrower than a register once more: kept from one use to the next, they
    // would occupy registers.
    __device__ __forceinline__ void widen_again() const {
        if constexpr (sizeof(X) < sizeof(uint32_t))
#pragma unroll
            for (int i = 0; i < Tile::count; ++i) tile.word[i] = ptx::held(tile.word[i]);
    }
    // The least or greatest of 16-bit numbers of row v; NaN if one is.
    template <bool Max>
    __device__ __forceinline__ float extremum(int v) const {
        uint32_t most = tile.word[0];
#pragma unroll
        for (int i = 1; i < Tile::count; ++i) most = ptx::extremum_of_pairs<X, Max>(most, tile.word[i]);
        const float low = Element<X>::widen_half(most, 0), high = Element<X>::widen_half(most, 1);
        if (Shape::V == 2) return v == 0 ? low : high;
        return extremum_of<Max>(low, high);
    }
    // The greatest number of row v. Of 16-bit numbers it is NaN if one is; wider NaNs are passed over.
    __device__ __forceinline__ Wide greatest(int v) const {
        if constexpr (sizeof(X) == 2) {
            return extremum<true>(v);
        } else {
            Wide most = get(0, v);
#pragma unroll
            for (int k = 1; k < L; ++k) most = fmax(most, get(k, v));
            return most;
        }
    }
};

// Minima or maxima of 16-bit numbers by the instructions for them, which do not tell +0 from -0, or one NaN from
// another.
template <bool Max>
struct QuickExtremum {
    float y;

    // Suits numbers without NaN that do not come to 0 on the way, because all they come to has the same sign, or none
    // of them is 0.
    template <typename Numbers>
    __device__ __forceinline__ bool begin(float first, const Numbers& numbers, int v) {
        y = first;
        const float last = extremum_of<Max>(first, numbers.template extremum<Max>(v));
        if (first * last > 0) return true;
        numbers.widen_again();
        float least = fabsf(first);
#pragma unroll
        for (int k = 0; k < Numbers::L; ++k) least = fminf(least, fabsf(numbers.get(k, v)));
        return least > 0 && last == last;
    }
    // Sets y to what the numbers come to, without a number before them; returns whether that is right.
    template <typename Numbers>
    __device__ __forceinline__ bool combine_all(const Numbers& numbers, int v) {
        y = numbers.template extremum<Max>(v);
        return fabsf(y) > 0;
    }
    __device__ __forceinline__ void add(float x) { y = Max ? fmaxf(y, x) : fminf(y, x); }
    __device__ __forceinline__ float value() const { return y; }
};
// Of 16-bit numbers alone: f32 runs at the speed of memory either way.
template <bool Max, typename X>
requires(sizeof(X) == 2) struct RunningNumber<combine::Extremum<Max>, X, float>
    : CombinedNumber<combine::Extremum<Max>, float> {
    using Quick = QuickExtremum<Max>;
};

// Calls body(running), where `running[v]` holds carry[v], and body adds the lane's numbers to it.
template <typename Running, int V, typename Wide, typename Numbers, typename Body>
__device__ __forceinline__ void with_running(const Wide (&carry)[V], const Numbers& numbers, Body&& body) {
    if constexpr (requires { typename Running::Quick; }) {
        typename Running::Quick quick[V];
        bool suits = true;
#pragma unroll
        for (int v = 0; v < V; ++v) suits = quick[v].begin(carry[v], numbers, v) && suits;
        numbers.widen_again();
        if (suits) return body(quick);
    }
    Running running[V];
#pragma unroll
    for (int v = 0; v < V; ++v) running[v].begin(carry[v]);
    body(running);
}

// Returns what the lane's numbers of row v combine to.
template <typename X, typename Operator, typename Numbers>
__device__ __forceinline__ auto combine_all_numbers(const Numbers& numbers, int v) {
    using Wide = typename Element<X>::Wide;
    if constexpr (std::is_same_v<Operator, combine::LogAddExp>) {
        return log_of_sum<X>(numbers, v);
    } else if constexpr (packs_bytes<X, Operator>) {
        return Numbers::template Bytes<Operator>::total(numbers.tile, v);
    } else {
        using Running = RunningNumber<Operator, X>;
        if constexpr (requires { typename Running::Quick; }) {
            typename Running::Quick quick;
            if (quick.combine_all(numbers, v)) return quick.value();
            numbers.widen_again();
        }
        Wide y = numbers.get(0, v);
#pragma unroll
        for (int k = 1; k < Numbers::L; ++k) y = combine_numbers<Operator, false>(y, numbers.get(k, v));
        return y;
    }
}

// Moves the elements of a lane's tile to the next step in the order of the scan; the first step becomes `before`.
template <typename X, typename Shape, bool Down, int V, typename Wide>
__device__ __forceinline__ void delay_steps(const LaneNumbers<X, Shape, Down>& numbers, const Wide (&before)[V]) {
    StepWriter<X, Shape, !Down> writer{numbers.tile};
#pragma unroll
    for (int k = Shape::L - 1; k >= 0; --k) {
        Wide values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = k > 0 ? numbers.get(k - 1, v) : before[v];
        writer.set(numbers.step(k), values);
    }
}

// Replaces the elements of a lane's tile by what they combine to one after the other, from the carry before them, which
// becomes the one after them. With `exclusive` the results are those of the step before.
template <typename Operator, typename X, typename Shape, bool Down, int V, typename Wide>
__device__ __forceinline__ void combine_tile(const LaneNumbers<X, Shape, Down>& numbers, Wide (&carry)[V],
                                             bool exclusive) {
    constexpr int L = Shape::L;
    Wide before[V];
#pragma unroll
    for (int v = 0; v < V; ++v) before[v] = carry[v];
    if constexpr (packs_bytes<X, Operator>) {
        PackedBytes<Operator, Shape, Down>::scan(numbers.tile, carry);
    } else {
        StepWriter<X, Shape, Down> writer{numbers.tile};
        with_running<RunningNumber<Operator, X>>(carry, numbers, [&](auto& running) {
#pragma unroll
            for (int k = 0; k < L; ++k) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    running[v].add(numbers.get(k, v));
                    carry[v] = running[v].value();
                }
                writer.set(numbers.step(k), carry);
            }
        });
    }
    if (exclusive) delay_steps(numbers, before);
}

}  // namespace flashscan::cuda
