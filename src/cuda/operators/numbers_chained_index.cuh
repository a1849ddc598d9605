// SPDX-License-Identifier: Apache-2.0
// The kernels of "numbers" that are chained scans of minima and maxima together with the steps that they come from,
// number_rows_index with time innermost and number_columns_index with channels innermost. They are those of
// numbers_chained.cuh, but for the monoid and for INDEX.
//
//     y[t] = y[t-1] o x[t]        INDEX[t] = t where x[t] is taken, else INDEX[t-1]
//
// INDEX[t] is -1 where no step has been taken yet or STATE_IN is the result.
//
// Monoid     A number together with the step that it comes from. Of two runs of steps the later one is taken if its
//            number is, or if there is nothing before it.
// Steps      A lane marks which of its steps are taken by a bit each. The index after a step is then that of the last
//            marked step up to it or, without one, the index that enters the lane.
// INDEX      With channels innermost a lane writes the indices of its own rows, which lie beside those of the other
//            lanes. With time innermost lanes side by side write indices side by side, so that the lane that writes an
//            index is not the one whose step it belongs to, and finds it from that lane's marks by shuffles.
// Bytes      INPUT is read once, OUTPUT and INDEX, which has 8 bytes, are written once.
// Bound      Memory: maxima of f32 reach 82 to 85 % of a copy on an H200 (bench/results/tried_operators.md).
// Limits     Those of numbers_chained.cuh. A row has fewer than 2^31 steps, and INDEX is aligned to 16 bytes.
#pragma once

#include <limits>

#include "cuda/operators/numbers_chained.cuh"

namespace flashscan::cuda {

inline constexpr int step_of_state = std::numeric_limits<int>::min();
// A number and the step that it comes from, counted from 1. STATE_IN has step_of_state; the identity, from which a row
// starts without it and which the first step replaces even if it is equal, has 0. The step is as wide as the number
// where this fills the word in which both are published.
template <typename Wide>
struct TakenNumber {
    Wide number;
    std::conditional_t<sizeof(Wide) == 8, int64_t, int32_t> step;
};
template <>
inline constexpr bool has_all_bits<TakenNumber<int64_t>> = true;
template <int V>
inline constexpr bool has_all_bits<LaneValues<TakenNumber<int64_t>, V>> = true;

template <typename X, typename Operator>
struct TakenMonoid {
    using Number = NumberMonoid<X, Operator>;
    using Wide = TakenNumber<typename Number::Wide>;
    using Map = Wide;
    using Record = Wide;
    static __device__ __forceinline__ Wide identity() { return {Number::identity(), 0}; }
    static __device__ __forceinline__ Wide start() { return identity(); }
    static __device__ __forceinline__ Wide compose(const Wide& early, const Wide& late) {
        return early.step == 0 || Operator::takes_right(early.number, late.number) ? late : early;
    }
    static __device__ __forceinline__ Wide apply(const Wide& run, const Wide& carry) { return compose(carry, run); }
    static __device__ __forceinline__ Wide shuffle_map(const Wide& run, int lane) {
        return {shuffle(run.number, lane), __shfl_sync(0xffffffffU, run.step, lane)};
    }
    static __device__ __forceinline__ Record to_record(const Wide& run) { return run; }
    static __device__ __forceinline__ Wide to_map(const Record& run) { return run; }
    static __device__ __forceinline__ bool is_cut(const Wide&) { return false; }
};

// TakenWork is what the works of both layouts share, in the place of NumberWork.
template <typename X, typename Operator, typename Shape_, bool Down_>
struct TakenWork : NumberScanLane<X, Shape_, Down_> {
    using Lane = NumberScanLane<X, Shape_, Down_>;
    using Monoid = TakenMonoid<X, Operator>;
    using Wide = typename Monoid::Wide;
    using Lane::Lane, Lane::Down, Lane::L, Lane::V, Lane::p, Lane::at, Lane::source, Lane::state;
    using typename Lane::Shape;
    using Mask = std::conditional_t<(L > 32), uint64_t, uint32_t>;

    Mask taken[V];  // bit k: whether the lane's step that is the k-th in the order of the scan is taken
    int before[V];  // the step, counted from 1, that y comes from before the lane's steps

    // The first of the lane's steps that exist, in the order of the scan; -1 if none does.
    __device__ __forceinline__ int first_step() const {
        if (at.first >= at.steps) return -1;
        return Down ? L - at.steps : at.first;
    }
    // The lane's step that is the k-th in the order of the scan, counted from 1 in the order of INPUT.
    __device__ __forceinline__ int step(int64_t t0, int k) const {
        const int t = static_cast<int>(t0) + LaneNumbers<X, Shape, Down>::step(k);
        return p.input.time < 0 ? static_cast<int>(p.time) - t : t + 1;
    }
    template <typename Then>
    __device__ __forceinline__ void summarize(Wide (&through)[V], Then&& then) {
        const auto numbers = this->numbers();
#pragma unroll
        for (int v = 0; v < V; ++v) {
            auto y = Monoid::Number::identity();
            int last = first_step();
#pragma unroll
            for (int k = 0; k < L; ++k) {
                const auto x = numbers.get(k, v);
                const bool takes = Operator::takes_right(y, x);
                last = takes ? k : last;
                y = takes ? x : y;
            }
            through[v] = {y, last < 0 ? 0 : step(at.t0, last)};
        }
        then();
    }
    // Replaces the lane's elements by those of OUTPUT and sets its marks.
    __device__ __forceinline__ void combine_steps(Wide (&carry)[V]) {
        const auto numbers = this->numbers();
        numbers.widen_again();
        StepWriter<X, Shape, Down> writer{source};
        typename Monoid::Number::Wide entering[V], y[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            entering[v] = y[v] = carry[v].number;
            before[v] = static_cast<int>(carry[v].step);
            const int first = before[v] == 0 ? first_step() : -1;
            taken[v] = first < 0 ? 0 : Mask{1} << first;
        }
#pragma unroll
        for (int k = 0; k < L; ++k) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const auto x = numbers.get(k, v);
                const bool takes = Operator::takes_right(y[v], x);
                taken[v] |= takes ? Mask{1} << k : 0;
                y[v] = takes ? x : y[v];
            }
            writer.set(numbers.step(k), y);
        }
        if (p.exclusive != 0) delay_steps(numbers, entering);
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = {y[v], step_after(taken[v], before[v], at.t0, L - 1)};
    }
    // The step that y comes from after the k-th step of a lane that has these marks and begins at step t0. For k = -1
    // it is the one that enters.
    __device__ __forceinline__ int step_after(Mask marks, int entering, int64_t t0, int k) const {
        constexpr int bits = static_cast<int>(8 * sizeof(Mask));
        const Mask upto = k < 0 ? 0 : marks << (bits - 1 - k);
        int zeros;
        if constexpr (bits == 64)
            zeros = __clzll(static_cast<int64_t>(upto));
        else
            zeros = __clz(static_cast<int>(upto));
        return upto == 0 ? entering : step(t0, k - zeros);
    }
    static __device__ __forceinline__ int64_t index_of(int64_t step) { return step > 0 ? step - 1 : -1; }
    __device__ __forceinline__ Wide enter(int v) const {
        if (p.state_in == nullptr) return Monoid::start();
        return {this->state_in(v), step_of_state};
    }
    __device__ __forceinline__ void leave(int v, const Wide& carry) const {
        this->leave_state(v, carry.number);
        if (p.reduced == nullptr) return;
        this->store_reduced(v, carry.number);
        p.index[state(v)] = index_of(carry.step);
    }
};

template <typename X, typename Operator, bool Down>
struct TakenRowsWork : NumberRowsWork<X, Operator, Down, TakenWork<X, Operator, NumberRowsShape<X>, Down>> {
    using Base = NumberRowsWork<X, Operator, Down, TakenWork<X, Operator, NumberRowsShape<X>, Down>>;
    using Base::Base, Base::p, Base::at, Base::L;
    using typename Base::Wide;

    __device__ __forceinline__ void walk(Wide (&carry)[1]) {
        Base::walk(carry);
        if (!this->writes()) return;
        // The warp's steps 32 j to 32 j + 31 in the order of memory, one for each lane.
        const int64_t row = at.batch * p.rows + at.warp_row;
#pragma unroll 4
        for (int j = 0; j < L; ++j) {
            const int element = 32 * j + at.lane, owner = element / L, i = element % L;
            const int k = (Down ? L - 1 - i : i) - p.exclusive;
            const auto marks = __shfl_sync(0xffffffffU, this->taken[0], owner);
            const int entering = __shfl_sync(0xffffffffU, this->before[0], owner);
            const int64_t t = at.warp_t0 + element;
            if (at.warp_rows > 0 && t >= 0 && t < p.time)
                p.index[row * p.time + t] =
                    this->index_of(this->step_after(marks, entering, at.warp_t0 + owner * L, k));
        }
    }
};

template <typename X, typename Operator>
struct TakenColumnsWork : NumberColumnsWork<X, Operator, TakenWork<X, Operator, NumberColumnsShape<X>, false>> {
    using Base = NumberColumnsWork<X, Operator, TakenWork<X, Operator, NumberColumnsShape<X>, false>>;
    using Base::Base, Base::p, Base::at, Base::L, Base::V;
    using typename Base::Wide;

    __device__ __forceinline__ void walk(Wide (&carry)[V]) {
        Base::walk(carry);
        if (!this->writes() || at.steps == 0) return;
        int64_t* to = p.index + (at.batch * p.time + this->step(at.t0, 0) - 1) * p.rows + at.row;
        const int64_t stride = p.input.time < 0 ? -p.rows : p.rows;
#pragma unroll
        for (int i = 0; i < L; ++i, to += stride) {
            if (i >= at.steps) break;
            int64_t indices[V];
#pragma unroll
            for (int v = 0; v < V; ++v)
                indices[v] = this->index_of(this->step_after(this->taken[v], this->before[v], at.t0, i - p.exclusive));
#pragma unroll
            for (int v = 0; v < V; v += 2) {
                if constexpr (V == 1)
                    *to = indices[0];
                else
                    *reinterpret_cast<longlong2*>(to + v) = {indices[v], indices[v + 1]};
            }
        }
    }
};

template <typename X, typename Operator, bool Down>
__global__ void __launch_bounds__(32 * chained_warps, 2)
    number_rows_index(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedRows<TakenRowsWork<X, Operator, Down>>>(p, sets);
}

template <typename X, typename Operator>
__global__ void __launch_bounds__(32 * chained_warps, 2)
    number_columns_index(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedColumns<TakenColumnsWork<X, Operator>>>(p, sets);
}

}  // namespace flashscan::cuda
