// SPDX-License-Identifier: Apache-2.0
// The kernels of "tiny" for products of D x D matrices that fit a thread's registers: element_scan forward and
// tiny_backward.
//
//     y[t] = y[t-1] x[t]                           forward: the scan of device/scan/element_scan.cuh
//     g[t-1] = dy[t-1] + g[t] x[t]^H               GRAD|INPUT[t] = y[t-1]^H g[t]
//
// Backward reads y and scans the maps g -> g P + G of the steps from the last step to the first.
//
// Ownership  As in the scan, a block has a chunk of some rows, and a lane L steps of a row. Forward keeps them as the
//            scan does; backward has one step's matrices in registers at a time and loads them again in the second
//            pass.
// Bytes      Forward reads one array and writes one; backward reads three, two of them twice, the second time from the
//            caches, and writes one.
// Sync       That of the scan.
// Limits     D up to 4, matrices of up to 128 bytes.
#pragma once

#include "cuda/device/scan/element_scan.cuh"
#include "cuda/operators/element_numbers.cuh"

namespace flashscan::cuda {

template <typename Wide, int D>
struct TinyMatrix {
    Wide m[D * D];
};

// y += l r; Left and Right tell that the conjugate transpose of l or r is taken.
template <bool Left, bool Right, typename Wide, int D>
__device__ __forceinline__ void add_product(const TinyMatrix<Wide, D>& l, const TinyMatrix<Wide, D>& r,
                                            TinyMatrix<Wide, D>& y) {
#pragma unroll
    for (int i = 0; i < D; ++i)
#pragma unroll
        for (int k = 0; k < D; ++k) {
            const Wide a = Left ? conj(l.m[k * D + i]) : l.m[i * D + k];
#pragma unroll
            for (int j = 0; j < D; ++j) {
                const Wide b = Right ? conj(r.m[j * D + k]) : r.m[k * D + j];
                y.m[i * D + j] = multiply_add(a, b, y.m[i * D + j]);
            }
        }
}
template <bool Left, bool Right, typename Wide, int D>
__device__ __forceinline__ TinyMatrix<Wide, D> product(const TinyMatrix<Wide, D>& l, const TinyMatrix<Wide, D>& r) {
    TinyMatrix<Wide, D> y{};
    add_product<Left, Right>(l, r, y);
    return y;
}

// How elements, which are an array m of N numbers, lie in memory.
template <typename X, typename Element_, int N>
struct TinyMemory {
    using Element = Element_;
    using Wide = typename cuda::Element<X>::Wide;
    static constexpr int bytes = N * static_cast<int>(sizeof(X));
    static constexpr int state_bytes = N * static_cast<int>(sizeof(Wide));

    __device__ __forceinline__ Element load(const char* from, bool aligned) const {
        Element x;
        if (aligned) {
            struct alignas(part) Stored {
                X x[N];
            };
            const Stored stored = *reinterpret_cast<const Stored*>(from);
#pragma unroll
            for (int n = 0; n < N; ++n) x.m[n] = cuda::Element<X>::widen(stored.x[n]);
        } else {
#pragma unroll
            for (int n = 0; n < N; ++n) x.m[n] = load_number<X>(from + n * sizeof(X), false);
        }
        return x;
    }
    __device__ __forceinline__ void store(char* to, const Element& y, bool aligned) const {
        if (aligned) {
            struct alignas(part) Stored {
                X x[N];
            };
            Stored stored;
#pragma unroll
            for (int n = 0; n < N; ++n) stored.x[n] = cuda::Element<X>::narrow(y.m[n]);
            *reinterpret_cast<Stored*>(to) = stored;
        } else {
#pragma unroll
            for (int n = 0; n < N; ++n) store_number<X>(to + n * sizeof(X), y.m[n], false);
        }
    }
    __device__ __forceinline__ Element load_state(const char* from) const {
        Element x;
#pragma unroll
        for (int n = 0; n < N; ++n) x.m[n] = load_number<Wide>(from + n * sizeof(Wide), false);
        return x;
    }
    __device__ __forceinline__ void store_state(char* to, const Element& y) const {
#pragma unroll
        for (int n = 0; n < N; ++n) store_number<Wide>(to + n * sizeof(Wide), y.m[n], false);
    }

  private:
    static constexpr int part = element_part(bytes);
};

// The operator that device/scan/element_scan.cuh is instantiated with.
template <typename X, int D>
struct Tiny : TinyMemory<X, TinyMatrix<typename cuda::Element<X>::Wide, D>, D * D> {
    using Wide = typename cuda::Element<X>::Wide;
    using Element = TinyMatrix<Wide, D>;
    static constexpr bool has_identity = true, has_parts = true, has_gradients = true, has_index = false;

    __device__ __forceinline__ Tiny(int32_t, const void*) {}

    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        return product<false, false>(l, r);
    }
    __device__ __forceinline__ Element combine_rarely(const Element& l, const Element& r) const {
        return combine(l, r);
    }
    __device__ __forceinline__ Element identity() const {
        Element y{};
#pragma unroll
        for (int i = 0; i < D; ++i) y.m[i * (D + 1)] = one(Wide{});
        return y;
    }
};

// The map g -> g p + c of a run of steps.
template <typename X, int D>
struct TinyMaps {
    using Matrix = typename Tiny<X, D>::Element;
    struct Element {
        Matrix p, c;
    };
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        Element m{product<false, false>(l.p, r.p), r.c};
        add_product<false, false>(l.c, r.p, m.c);
        return m;
    }
};

template <typename X, int D>
struct TinyBackward {
    using Op = Tiny<X, D>;
    using Matrix = typename Op::Element;
    using Maps = TinyMaps<X, D>;
    using Map = typename Maps::Element;
    static constexpr int L = element_steps(sizeof(Matrix)), warps = element_warps(sizeof(Matrix));
    using Place = ElementPlace<L, warps>;
    using Chain = ElementChain<Maps, L, warps>;

    const TinyBackwardParams& p;
    const Op& op;
    const Place& at;
    const ElementEdges& edges;  // begin and end in the order of this walk, which is opposite to that of the scan

    __device__ __forceinline__ Matrix load(const void* data, int64_t t) const {
        return op.load(static_cast<const char*>(data) + at.element(p.grid, t) * Op::bytes, p.grid.aligned != 0);
    }
    __device__ __forceinline__ Matrix state(const void* data, int i) const {
        return op.load_state(static_cast<const char*>(data) + at.state(p.grid, i) * Op::state_bytes);
    }
    static __device__ __forceinline__ void add(Matrix& to, const Matrix& more) {
#pragma unroll
        for (int n = 0; n < D * D; ++n) to.m[n] = to.m[n] + more.m[n];
    }
    __device__ __forceinline__ Matrix entering(int i) const {
        Matrix g{};
        if (p.grad_state_out != nullptr) g = state(p.grad_state_out, i);
        if (p.grad_reduced != nullptr)
            add(g, op.load(static_cast<const char*>(p.grad_reduced) + at.state(p.grid, i) * Op::bytes, false));
        return g;
    }
    // y before step i of the walk, whose time is t.
    __device__ __forceinline__ Matrix before(int i, int64_t t) const {
        if (ElementEdges::at(edges.end, i)) return state(p.state_in, i);
        if (p.prefix == prefix_exclusive) return load(p.before, t);
        if (p.prefix == prefix_inclusive)
            return load(p.before, p.grid.down != 0 ? max(t - 1, int64_t{0}) : min(t + 1, p.grid.time - 1));
        return op.load_state(static_cast<const char*>(p.before) + at.element(p.grid, t) * Op::state_bytes);
    }

    __device__ __forceinline__ Run<Map> summarize() const {
        Run<Map> run;
        run.tag = run_empty;
#pragma unroll 1
        for (int i = at.first; i < at.last; ++i) {
            const int64_t t = at.time(p.grid, i);
            const Matrix x = load(p.input, t);
            Matrix dy{};
            if (p.grad_output != nullptr) dy = load(p.grad_output, t);
            const bool begins = ElementEdges::at(edges.begin, i);
            Matrix c{};
            if (begins)
                c = entering(i);
            else if (run.tag != run_empty)
                c = run.value.c;
            step(c, x, dy);
            if (begins || run.tag == run_empty) {
#pragma unroll
                for (int n = 0; n < D * D; ++n) run.value.p.m[n] = conj(x.m[n % D * D + n / D]);
            } else if (run.tag == run_open) {
                run.value.p = product<false, true>(run.value.p, x);
            }
            run.value.c = c;
            run.tag = begins ? run_closed : run.tag == run_empty ? run_open : run.tag;
        }
        return run;
    }
    // Turns the gradient g of y[t] into that of y[t-1].
    __device__ __forceinline__ void step(Matrix& g, const Matrix& x, const Matrix& dy) const {
        if (p.mode == element_exclusive) {
            Matrix next = dy;
            add_product<false, true>(g, x, next);
            g = next;
        } else {
            add(g, dy);
            g = product<false, true>(g, x);
        }
    }

    __device__ __forceinline__ void walk(const Run<Map>& run) const {
        Matrix g{};
        if (run.tag != run_empty) g = run.value.c;
#pragma unroll 1
        for (int i = at.first; i < at.last; ++i) {
            const int64_t t = at.time(p.grid, i);
            if (ElementEdges::at(edges.begin, i)) g = entering(i);
            const bool ends = ElementEdges::at(edges.end, i);
            Matrix dy{};
            if (p.grad_output != nullptr) dy = load(p.grad_output, t);
            if (p.grad_input != nullptr) {
                Matrix here = g;
                if (p.mode != element_exclusive) add(here, dy);
                if (!ends || p.state_in != nullptr) here = product<true, false>(before(i, t), here);
                op.store(static_cast<char*>(p.grad_input) + at.element(p.grid, t) * Op::bytes, here,
                         p.grid.aligned != 0);
            }
            step(g, load(p.input, t), dy);
            if (ends && p.grad_state_in != nullptr)
                op.store_state(static_cast<char*>(p.grad_state_in) + at.state(p.grid, i) * Op::state_bytes, g);
        }
    }
};

template <typename X, int D>
__global__ void __launch_bounds__(32 * TinyBackward<X, D>::warps)
    tiny_backward(const __grid_constant__ TinyBackwardParams p) {
    using Pass = TinyBackward<X, D>;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    const typename Pass::Op op(0, nullptr);
    const typename Pass::Place at(p.grid);
    const ElementEdges edges(p.grid, at);
    const Pass pass{p, op, at, edges};
    const typename Pass::Maps maps;
    const typename Pass::Chain chain{maps, p.grid, at, reinterpret_cast<Run<typename Pass::Map>*>(memory)};
    pass.walk(chain.find_before(pass.summarize(), true, [](int, const auto&) {}));
}

}  // namespace flashscan::cuda
