// SPDX-License-Identifier: Apache-2.0
// The kernel numbers_backward of "numbers" takes every gradient: complex products, packed sequences and what else
// numbers_chained_backward.cuh, which is faster where it applies, does not take.
//
//     g[t-1] = dy[t-1] + dy[t]/dy[t-1] g[t]        GRAD|INPUT[t] = dy[t]/dx[t] g[t]
//
// Backward takes two launches. The first is the forward scan, of which only the carry into each chunk is kept, called
// its mark. The second is the kernel here.
//
// Ownership  As in device/scan/element_scan.cuh: a block owns a chunk of steps of some rows, a lane L of them.
// Passes     A block takes its chunks in the opposite order of time. It recomputes y from its mark, and with it the
//            slopes dy[t]/dy[t-1], and scans the maps g -> s g + c of its steps as the forward scan does elements.
// Bytes      INPUT is read twice, by both launches, GRAD|OUTPUT once, and GRAD|INPUT is written once. ADD's slopes are
//            1, so it has no marks and reads GRAD|OUTPUT alone.
// Sync       That of the scan.
// Limits     Floating-point and complex numbers.
#pragma once

#include "cuda/operators/backward_params.h"
#include "cuda/operators/numbers_general.cuh"

namespace flashscan::cuda {

// The map g -> slope g + c of a run of steps, for V numbers.
template <typename X, int V>
struct NumberSlopes {
    using Wide = typename cuda::Element<X>::Wide;
    struct Element {
        Wide slope[V], c[V];
    };
    // A gradient of zero gives exactly c, even where the product of the slopes has overflowed.
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

// The gradient of y after the last step of a sequence. These three functions are not inlined because they are rarely
// called.
template <typename Op>
__device__ __noinline__ typename Op::Element load_entering(const NumbersBackwardParams& p, int64_t batch, int64_t row,
                                                           int64_t t0, int i) {
    const Op op;
    const int64_t t = element_time<element_steps(sizeof(typename Op::Element))>(p.grid, t0, i);
    const int64_t state = element_state(p.grid, batch, row, t);
    typename Op::Element g{};
    if (p.grad_state_out != nullptr)
        g = op.load_state(static_cast<const char*>(p.grad_state_out) + state * Op::state_bytes);
    if (p.grad_reduced == nullptr) return g;
    const typename Op::Element more = op.load(static_cast<const char*>(p.grad_reduced) + state * Op::bytes, false);
#pragma unroll
    for (int n = 0; n < Op::count; ++n) g.v[n] = g.v[n] + more.v[n];
    return g;
}
template <typename Op>
__device__ __noinline__ typename Op::Element load_state_in(const NumbersBackwardParams& p, int64_t batch, int64_t row,
                                                           int64_t t0, int i) {
    const int64_t t = element_time<element_steps(sizeof(typename Op::Element))>(p.grid, t0, i);
    return Op().load_state(static_cast<const char*>(p.state_in) +
                           element_state(p.grid, batch, row, t) * Op::state_bytes);
}
template <typename Op>
__device__ __noinline__ void store_grad_state_in(const NumbersBackwardParams& p, int64_t batch, int64_t row, int64_t t0,
                                                 int i, typename Op::Element g) {
    const int64_t t = element_time<element_steps(sizeof(typename Op::Element))>(p.grid, t0, i);
    Op().store_state(static_cast<char*>(p.grad_state_in) + element_state(p.grid, batch, row, t) * Op::state_bytes, g);
}

template <typename X, int V, typename Operator>
struct NumbersBackward {
    using Op = Numbers<X, V, Operator>;
    using Wide = typename Op::Wide;
    using Number = typename Op::Element;
    using Slopes = NumberSlopes<X, V>;
    using Map = typename Slopes::Element;
    static constexpr int L = element_steps(sizeof(Number)), warps = element_warps(sizeof(Number));
    static constexpr bool has_slopes = combine::RowOf<Operator>::has_slopes;  // whether slopes are not all 1
    using Place = ElementPlace<L, warps>;
    using Values = ElementChain<Op, L, warps>;
    using Maps = ElementChain<Slopes, L, warps>;

    const NumbersBackwardParams& p;
    const Op& op;
    const Place& at;
    const ElementEdges& edges;  // begin and end in the order of this walk, which is opposite to that of the scan
    bool plain;                 // whether all steps of the warp exist and none begins or ends a sequence

    __device__ __forceinline__ NumbersBackward(const NumbersBackwardParams& p_, const Op& op_, const Place& at_,
                                               const ElementEdges& edges_)
        : p(p_),
          op(op_),
          at(at_),
          edges(edges_),
          plain(at_.whole && __all_sync(0xffffffffU, (edges_.begin | edges_.end) == 0) != 0) {}

    __device__ __forceinline__ Number entering(int i) const {
        if (p.grad_state_out == nullptr && p.grad_reduced == nullptr) return Number{};
        return load_entering<Op>(p, at.batch, at.row, at.t0, i);
    }
    // Sets y to STATE_IN, before the first step of a sequence; returns whether there is one.
    __device__ __forceinline__ bool enter(int i, Number& y) const {
        if (p.state_in == nullptr) return false;
        y = load_state_in<Op>(p, at.batch, at.row, at.t0, i);
        return true;
    }

    // The run of y of the lane's steps. Their indices here go against the order of the scan, so it starts with the
    // last.
    __device__ __forceinline__ Run<Number> summarize(const Number (&x)[L]) const {
        Run<Number> run;
        if (plain) {
            run.value = x[L - 1];
            run.tag = run_open;
#pragma unroll
            for (int i = L - 2; i >= 0; --i) run.value = op.combine(run.value, x[i]);
            return run;
        }
        run.tag = run_empty;
#pragma unroll
        for (int i = L - 1; i >= 0; --i) {
            if (!at.exists(i)) continue;
            bool any = run.tag != run_empty;
            if (ElementEdges::at(edges.end, i)) {
                run.tag = run_closed;
                any = enter(i, run.value);
            } else if (!any) {
                run.tag = run_open;
            }
            if (any)
                run.value = op.combine_rarely(run.value, x[i]);
            else
                run.value = x[i];
        }
        return run;
    }

    // Replaces x[t] by the slope dy[t]/dy[t-1] and sets `right` to the slope dy[t]/dx[t]. Where there is no y[t-1],
    // y[t] is x[t], so the slopes are 0 and 1.
    __device__ __forceinline__ void find_slopes(const Run<Number>& before, Number (&x)[L], Number (&right)[L]) const {
        Number y = before.value;
        if (plain) {
#pragma unroll
            for (int i = L - 1; i >= 0; --i) set_slopes<false>(y, x[i], right[i]);
            return;
        }
        bool any = before.tag != run_empty;
#pragma unroll
        for (int i = L - 1; i >= 0; --i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.end, i)) any = enter(i, y);
            if (any) {
                set_slopes<true>(y, x[i], right[i]);
            } else {
                y = x[i];
                x[i] = Number{};
                set_ones(right[i]);
            }
            any = true;
        }
    }
    template <bool rare>
    static __device__ __forceinline__ void set_slopes(Number& y, Number& x, Number& right) {
#pragma unroll
        for (int n = 0; n < V; ++n) {
            const Wide now = x.v[n];
            x.v[n] = Operator::left_slope(y.v[n], now);
            right.v[n] = Operator::right_slope(y.v[n], now);
            y.v[n] = combine_numbers<Operator, rare>(y.v[n], now);
        }
    }
    static __device__ __forceinline__ void set_ones(Number& slope) {
#pragma unroll
        for (int n = 0; n < V; ++n) slope.v[n] = one(Wide{});
    }

    // The run of the maps g -> s g + c of the lane's steps.
    __device__ __forceinline__ Run<Map> summarize(const Number (&left)[L], const Number (&dy)[L]) const {
        Run<Map> run;
        const bool exclusive = p.mode == element_exclusive;
        if (plain) {
            run.tag = run_open;
            begin(exclusive, left[0], dy[0], Number{}, run.value);
#pragma unroll
            for (int i = 1; i < L; ++i) extend(exclusive, left[i], dy[i], run.value);
            return run;
        }
        run.tag = run_empty;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            const bool begins = ElementEdges::at(edges.begin, i);
            if (begins || run.tag == run_empty) {
                begin(exclusive, left[i], dy[i], begins ? entering(i) : Number{}, run.value);
                run.tag = begins ? run_closed : run_open;
            } else {
                extend(exclusive, left[i], dy[i], run.value);
            }
        }
        return run;
    }
    // Turns the gradient g of y[t] into that of y[t-1] and returns it; `here` becomes the gradient that dy[t]/dx[t] is
    // multiplied by.
    static __device__ __forceinline__ Wide step_back(bool exclusive, Wide slope, Wide d, Wide g, Wide& here) {
        here = exclusive ? g : g + d;
        return exclusive ? Slopes::apply(slope, g, d) : slope * here;
    }
    static __device__ __forceinline__ void begin(bool exclusive, const Number& left, const Number& dy, const Number& g,
                                                 Map& map) {
#pragma unroll
        for (int n = 0; n < V; ++n) {
            Wide here;
            map.c[n] = step_back(exclusive, left.v[n], dy.v[n], g.v[n], here);
            map.slope[n] = left.v[n];
        }
    }
    static __device__ __forceinline__ void extend(bool exclusive, const Number& left, const Number& dy, Map& map) {
#pragma unroll
        for (int n = 0; n < V; ++n) {
            Wide here;
            map.c[n] = step_back(exclusive, left.v[n], dy.v[n], map.c[n], here);
            map.slope[n] = map.slope[n] * left.v[n];
        }
    }

    // Replaces dy by GRAD|INPUT; `before` is the run of the maps that the walk applies before the lane's steps.
    __device__ __forceinline__ void walk(const Run<Map>& before, const Number (&left)[L], const Number (&right)[L],
                                         Number (&dy)[L]) const {
        const bool exclusive = p.mode == element_exclusive;
        Number g{};
        if (before.tag != run_empty) {
#pragma unroll
            for (int n = 0; n < V; ++n) g.v[n] = before.value.c[n];
        }
        if (plain) {
#pragma unroll
            for (int i = 0; i < L; ++i) go_back(exclusive, left[i], right[i], g, dy[i]);
            return;
        }
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.begin, i)) g = entering(i);
            go_back(exclusive, left[i], right[i], g, dy[i]);
            if (p.grad_state_in != nullptr && ElementEdges::at(edges.end, i))
                store_grad_state_in<Op>(p, at.batch, at.row, at.t0, i, g);
        }
    }
    static __device__ __forceinline__ void go_back(bool exclusive, const Number& left, const Number& right, Number& g,
                                                   Number& dy) {
#pragma unroll
        for (int n = 0; n < V; ++n) {
            Wide here;
            g.v[n] = step_back(exclusive, left.v[n], dy.v[n], g.v[n], here);
            dy.v[n] = right.v[n] * here;
        }
    }
};

template <typename X, int V, typename Operator>
__global__ void __launch_bounds__(32 * NumbersBackward<X, V, Operator>::warps, 2)
    numbers_backward(const __grid_constant__ NumbersBackwardParams p) {
    using Pass = NumbersBackward<X, V, Operator>;
    using Number = typename Pass::Number;
    constexpr int L = Pass::L;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    char* const runs = memory + (p.grid.time_inner != 0 ? element_buffer_bytes(Pass::Op::bytes, L, Pass::warps) : 0);
    const typename Pass::Op op;
    const typename Pass::Place at(p.grid);
    const ElementTile<typename Pass::Op, L, Pass::warps> tile{op, p.grid, at, memory};
    Number left[L], right[L], dy[L];
    if (Pass::has_slopes && p.grad_output != nullptr) {
        tile.load(p.input, left, p.grad_output, dy);
    } else {
        if (Pass::has_slopes) tile.load(p.input, left);
        if (p.grad_output != nullptr) tile.load(p.grad_output, dy);
    }
    if (p.grad_output == nullptr) {
#pragma unroll
        for (int i = 0; i < L; ++i) dy[i] = Number{};
    }
    const ElementEdges edges(p.grid, at);
    const Pass pass(p, op, at, edges);
    if constexpr (Pass::has_slopes) {
        const typename Pass::Values values{op, p.grid, at, reinterpret_cast<Run<Number>*>(runs)};
        const auto chunk = at.chunks - 1 - at.chunk;
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
    const typename Pass::Maps maps{slopes, p.grid, at, reinterpret_cast<Run<typename Pass::Map>*>(runs)};
    const auto before = maps.find_before(pass.summarize(left, dy), true, [](int, const auto&) {});
    pass.walk(before, left, right, dy);
    if (p.grad_input != nullptr) tile.store(p.grad_input, dy);
}

}  // namespace flashscan::cuda
