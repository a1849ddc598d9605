// SPDX-License-Identifier: Apache-2.0
// The kernel indexed_scan of "numbers": minima and maxima together with the steps that they come from, forward, of
// every problem that numbers_chained_index.cuh, which is faster where it applies, does not take.
//
//     y[t] = y[t-1] o x[t]        INDEX[t] = t where x[t] is taken, else INDEX[t-1], which is -1 at first
//
// An element is a number and a step. The scan is that of device/scan/element_scan.cuh, whose opening comment tells the
// ownership and synchronisation. What differs is how a lane gets and leaves its elements.
//
// Bytes      INPUT is read once, OUTPUT and INDEX are written once. The lane makes the steps of the elements itself.
// Buffer     Numbers and indices have other bytes, so each have a buffer of their own: first that of the numbers, then
//            that of the indices, then the runs.
// Limits     Real numbers and integers, one channel a lane.
#pragma once

#include "cuda/operators/numbers_general.cuh"

namespace flashscan::cuda {

// The operator that the scan is instantiated with. Memory has its numbers and steps in different arrays, so load and
// store, which the tiles of those arrays have, do not move whole elements here.
template <typename X, typename Operator>
struct Indexed {
    using Number = Numbers<X, 1, Operator>;
    using Wide = typename Number::Wide;
    // The step is in halves so that an element of a 32-bit number has no padding, which blocks would exchange.
    struct Element {
        Wide number;
        uint32_t low, high;

        __device__ __forceinline__ int64_t step() const {
            return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | low);
        }
    };
    static constexpr int bytes = Number::bytes, state_bytes = Number::state_bytes;
    static constexpr bool has_identity = true, has_parts = false, has_gradients = false, has_index = true;

    __device__ __forceinline__ Indexed(int32_t, const void*) {}

    static __device__ __forceinline__ Element element(Wide number, int64_t step) {
        const auto bits = static_cast<uint64_t>(step);
        return {number, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
    }
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        return Operator::takes_right(l.number, r.number) ? r : l;
    }
    __device__ __forceinline__ Element combine_rarely(const Element& l, const Element& r) const {
        return combine(l, r);
    }
    __device__ __forceinline__ Element identity() const {
        return element(combine::Identity<Operator, Wide>::get(), -1);
    }
    __device__ __forceinline__ void store(char* to, const Element& y, bool aligned) const {
        Number().store(to, {{y.number}}, aligned);
    }
    __device__ __forceinline__ Element load_state(const char* from) const {
        return element(Number().load_state(from).v[0], -1);
    }
    __device__ __forceinline__ void store_state(char* to, const Element& y) const {
        Number().store_state(to, {{y.number}});
    }
    __device__ __forceinline__ void store_index(void* index, int64_t place, const Element& y) const {
        static_cast<int64_t*>(index)[place] = y.step();
    }
};

// Elements of INDEX, for their tile.
struct StepIndices {
    using Element = int64_t;
    static constexpr int bytes = 8;
    static constexpr bool has_parts = false;

    __device__ __forceinline__ void store(char* to, const Element& step, bool) const {
        *reinterpret_cast<int64_t*>(to) = step;
    }
};

template <typename X, typename Operator>
struct IndexedScan {
    using Op = Indexed<X, Operator>;
    using Scan = ElementScan<Op>;
    static constexpr int L = Scan::L, warps = Scan::warps;
    static constexpr int number_buffer = element_buffer_bytes(Op::bytes, L, warps);
    static constexpr int step_buffer = element_buffer_bytes(StepIndices::bytes, L, warps);
    static_assert(!Scan::kept && !element_is_kept(StepIndices::bytes), "elements are in registers");
};

template <typename X, typename Operator>
__global__ void __launch_bounds__(32 * IndexedScan<X, Operator>::warps)
    indexed_scan(const __grid_constant__ ElementScanParams p) {
    using This = IndexedScan<X, Operator>;
    using Op = typename This::Op;
    using Number = typename Op::Number;
    constexpr int L = This::L;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    char* const runs = memory + (p.grid.time_inner != 0 ? This::number_buffer + This::step_buffer : 0);
    const Op op(p.kind, p.operator_state);
    const Number number_op;
    const StepIndices step_op;
    const typename This::Scan::Place at(p.grid);
    const ElementTile<Number, L, This::warps> numbers{number_op, p.grid, at, memory};
    const ElementTile<StepIndices, L, This::warps> steps{step_op, p.grid, at, memory + This::number_buffer};
    typename Number::Element number[L];
    numbers.load(p.input, number);
    ElementRegisters<Op, L> items;
#pragma unroll
    for (int i = 0; i < L; ++i) items.item[i] = Op::element(number[i].v[0], at.time(p.grid, i));
    scan_items<Op>(p, op, at, runs, items);
    if (p.output == nullptr) return;
    int64_t step[L];
#pragma unroll
    for (int i = 0; i < L; ++i) {
        number[i].v[0] = items.item[i].number;
        step[i] = items.item[i].step();
    }
    numbers.store(p.output, number);
    steps.store(p.index, step);
}

}  // namespace flashscan::cuda
