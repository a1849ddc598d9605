// SPDX-License-Identifier: Apache-2.0
// Operators on numbers as elements of V neighbouring channels: the scan of element_scan.cuh, and backward.
//
//     g[t-1] = dy[t-1] + dy[t]/dy[t-1] g[t]        GRAD|INPUT[t] = dy[t]/dx[t] g[t]
//
// Backward takes two launches. The first is the scan, of which only what enters each chunk is kept: the marks. The
// second walks the other way; a block computes y again from its mark, and the slopes with it, and scans the maps
// g -> s g + c of its steps.
//
// Bytes      Forward reads one array and writes one, backward reads three (INPUT twice) and writes one. ADD's slopes
//            are 1: it has no marks and reads GRAD|OUTPUT alone.
#pragma once

#include "cuda/kernels/element_numbers.cuh"
#include "cuda/kernels/element_scan.cuh"
#include "math/operators.h"

namespace flashscan::cuda {

enum NumberKind {
    number_add = 0,
    number_mul = 1,
    number_min = 2,
    number_max = 3,
    number_logaddexp = 4
};

// Calls f with the operator. Complex numbers have no order.
template <typename T, typename F>
__device__ __forceinline__ auto with_number_operator(int kind, T, F&& f) {
    switch (kind) {
    case number_add: return f(combine::Add{});
    case number_min: return f(combine::Min{});
    case number_max: return f(combine::Max{});
    case number_logaddexp: return f(combine::LogAddExp{});
    default: return f(combine::Mul{});
    }
}
template <typename T, typename F>
__device__ __forceinline__ auto with_number_operator(int kind, Complex<T>, F&& f) {
    return kind == number_add ? f(combine::Add{}) : f(combine::Mul{});
}

__device__ __forceinline__ float number_of(double x, float) { return static_cast<float>(x); }
__device__ __forceinline__ double number_of(double x, double) { return x; }
template <typename T>
__device__ __forceinline__ Complex<T> number_of(double x, Complex<T>) {
    return {static_cast<T>(x), T(0)};
}

template <typename X, int V>
struct Numbers {
    using Storage = cuda::Element<X>;
    using Wide = typename Storage::Wide;
    struct Element {
        Wide v[V];
    };
    static constexpr int bytes = V * static_cast<int>(sizeof(X)), state_bytes = V * static_cast<int>(sizeof(Wide));
    static constexpr bool has_identity = true;

    int kind;

    __device__ __forceinline__ Numbers(int32_t kind_, const void*) : kind(kind_) {}

    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        return with_number_operator(kind, Wide{}, [&](auto op) {
            Element y;
#pragma unroll
            for (int n = 0; n < V; ++n) y.v[n] = op.combine(l.v[n], r.v[n]);
            return y;
        });
    }
    __device__ __forceinline__ Element identity() const {
        return with_number_operator(kind, Wide{}, [&](auto op) {
            Element y;
#pragma unroll
            for (int n = 0; n < V; ++n) y.v[n] = number_of(op.identity(), Wide{});
            return y;
        });
    }

    __device__ __forceinline__ Element load(const char* from, bool aligned) const {
        Element x;
        if constexpr (V == 2) {
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
        if constexpr (V == 2) {
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

// The map g -> slope g + c of a run of steps, for V numbers.
template <typename X, int V>
struct NumberSlopes {
    using Wide = typename cuda::Element<X>::Wide;
    struct Element {
        Wide slope[V], c[V];
    };
    // A zero gives c exactly, also where the product of the slopes overflowed.
    static __device__ __forceinline__ Wide apply(Wide slope, Wide g, Wide c) {
        return is_zero(g) ? c : multiply_add(slope, g, c);
    }
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        Element m;
#pragma unroll
        for (int n = 0; n < V; ++n) {
            m.slope[n] = l.slope[n] * r.slope[n];
            m.c[n] = apply(r.slope[n], l.c[n], r.c[n]);
        }
        return m;
    }
};

template <typename X, int V>
struct NumbersBackward {
    using Op = Numbers<X, V>;
    using Wide = typename Op::Wide;
    using Number = typename Op::Element;
    using Slopes = NumberSlopes<X, V>;
    using Map = typename Slopes::Element;
    static constexpr int L = element_steps(Op::bytes), warps = element_warps(sizeof(Number));
    using Place = ElementPlace<L, warps>;
    using Values = ElementChain<Op, L, warps>;
    using Maps = ElementChain<Slopes, L, warps>;

    const NumbersBackwardParams& p;
    const Op& op;
    const Place& at;
    const ElementEdges& edges;  // in the order of this walk

    __device__ __forceinline__ Number state(const void* data, int i) const {
        return op.load_state(static_cast<const char*>(data) + at.state(p.grid, i) * Op::state_bytes);
    }
    // What a gradient of y after the last step of its sequence is.
    __device__ __forceinline__ Number entering(int i) const {
        Number g{};
        if (p.grad_state_out != nullptr) g = state(p.grad_state_out, i);
        if (p.grad_reduced != nullptr) {
            const int64_t place = at.state(p.grid, i) * Op::bytes;
            const Number more = op.load(static_cast<const char*>(p.grad_reduced) + place, false);
#pragma unroll
            for (int n = 0; n < V; ++n) g.v[n] = g.v[n] + more.v[n];
        }
        return g;
    }

    // y of the lane's steps, which run backward here.
    __device__ __forceinline__ Run<Number> summarize(const Number (&x)[L]) const {
        Run<Number> run;
        run.tag = run_empty;
#pragma unroll
        for (int i = L - 1; i >= 0; --i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.end, i)) {
                run.value = p.state_in != nullptr ? op.combine(state(p.state_in, i), x[i]) : x[i];
                run.tag = run_closed;
            } else if (run.tag == run_empty) {
                run.value = x[i];
                run.tag = run_open;
            } else {
                run.value = op.combine(run.value, x[i]);
            }
        }
        return run;
    }

    // x becomes the slope towards y[t-1], `right` that towards x. Where there is no y[t-1] all goes to x.
    __device__ __forceinline__ void find_slopes(const Run<Number>& before, Number (&x)[L], Number (&right)[L]) const {
        Number y = before.value;
        bool any = before.tag != run_empty;
#pragma unroll
        for (int i = L - 1; i >= 0; --i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.end, i)) {
                any = p.state_in != nullptr;
                if (any) y = state(p.state_in, i);
            }
            const Number now = x[i];
            if (any) {
                with_number_operator(op.kind, Wide{}, [&](auto o) {
#pragma unroll
                    for (int n = 0; n < V; ++n) {
                        x[i].v[n] = o.left_slope(y.v[n], now.v[n]);
                        right[i].v[n] = o.right_slope(y.v[n], now.v[n]);
                        y.v[n] = o.combine(y.v[n], now.v[n]);
                    }
                });
            } else {
                x[i] = Number{};
                set_ones(right[i]);
                y = now;
            }
            any = true;
        }
    }
    static __device__ __forceinline__ void set_ones(Number& slope) {
#pragma unroll
        for (int n = 0; n < V; ++n) slope.v[n] = one(Wide{});
    }

    __device__ __forceinline__ Run<Map> summarize(const Number (&left)[L], const Number (&dy)[L]) const {
        Run<Map> run;
        run.tag = run_empty;
        const bool exclusive = p.mode == element_exclusive;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            Number g{};
            const bool begins = ElementEdges::at(edges.begin, i);
            if (begins) g = entering(i);
            if (run.tag == run_empty) run.value = Map{};
#pragma unroll
            for (int n = 0; n < V; ++n) {
                const Wide s = left[i].v[n], d = dy[i].v[n];
                const Wide c = begins || run.tag == run_empty ? g.v[n] : run.value.c[n];
                run.value.c[n] = exclusive ? Slopes::apply(s, c, d) : s * (c + d);
                run.value.slope[n] = run.tag == run_empty ? s : run.value.slope[n] * s;
            }
            run.tag = begins ? run_closed : run.tag == run_empty ? run_open : run.tag;
        }
        return run;
    }

    // dy becomes GRAD|INPUT.
    __device__ __forceinline__ void walk(const Run<Map>& before, const Number (&left)[L], const Number (&right)[L],
                                         Number (&dy)[L]) const {
        const bool exclusive = p.mode == element_exclusive;
        Number g{};
        if (before.tag != run_empty) {
#pragma unroll
            for (int n = 0; n < V; ++n) g.v[n] = before.value.c[n];
        }
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.begin, i)) g = entering(i);
#pragma unroll
            for (int n = 0; n < V; ++n) {
                const Wide d = dy[i].v[n], here = exclusive ? g.v[n] : g.v[n] + d;
                dy[i].v[n] = right[i].v[n] * here;
                g.v[n] = exclusive ? Slopes::apply(left[i].v[n], here, d) : left[i].v[n] * here;
            }
            if (p.grad_state_in != nullptr && ElementEdges::at(edges.end, i))
                op.store_state(static_cast<char*>(p.grad_state_in) + at.state(p.grid, i) * Op::state_bytes, g);
        }
    }
};

template <typename X, int V>
__global__ void __launch_bounds__(32 * NumbersBackward<X, V>::warps, 2)
    numbers_backward(const __grid_constant__ NumbersBackwardParams p) {
    using Pass = NumbersBackward<X, V>;
    using Number = typename Pass::Number;
    constexpr int L = Pass::L;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    const typename Pass::Op op(p.kind, nullptr);
    const typename Pass::Place at(p.grid);
    const ElementTile<typename Pass::Op, L, Pass::warps> tile{op, p.grid, at};
    Number left[L], right[L], dy[L];
    if (p.input != nullptr) tile.load(p.input, left);
#pragma unroll
    for (int i = 0; i < L; ++i) dy[i] = Number{};
    if (p.grad_output != nullptr) tile.load(p.grad_output, dy);
    const ElementEdges edges(p.grid, at);
    const Pass pass{p, op, at, edges};
    if (p.input != nullptr) {
        const typename Pass::Values values{op, p.grid, at, reinterpret_cast<Run<Number>*>(memory)};
        const auto chunk = static_cast<int32_t>(p.grid.chunks) - 1 - at.chunk;
        Run<Number> mark;
        mark.tag = run_empty;
        if (p.marks != nullptr) mark = static_cast<const Run<Number>*>(p.marks)[values.place(chunk, at.row_in_block)];
        const Run<Number> before = values.find_after(pass.summarize(left), mark);
        pass.find_slopes(before, left, right);
        __syncthreads();
    } else {
#pragma unroll
        for (int i = 0; i < L; ++i) {
            Pass::set_ones(left[i]);
            Pass::set_ones(right[i]);
        }
    }
    const typename Pass::Slopes slopes;
    const typename Pass::Maps maps{slopes, p.grid, at, reinterpret_cast<Run<typename Pass::Map>*>(memory)};
    const auto before = maps.find_before(pass.summarize(left, dy), [](int, const auto&) {});
    pass.walk(before, left, right, dy);
    if (p.grad_input != nullptr) tile.store(p.grad_input, dy);
}

}  // namespace flashscan::cuda
