// SPDX-License-Identifier: Apache-2.0
// The kernel tiny_affine of "tiny": affine maps with D x D matrices W that fit a thread's registers, both passes.
//
//     y[t] = W[t] y[t-1] + x[t]                    forward
//     g[t-1] = dy[t-1] + W[t]^H g[t]               backward: GRAD|INPUT[t] = g[t], GRAD|GATE[t] = g[t] y[t-1]^H
//
// Both are r = M r + u; backward walks from the last step to the first. There dy[t] is the gradient of the state y[t],
// which an inclusive scan has at step t of OUTPUT and an exclusive one at step t + 1. A run of steps is the map
// r -> a r + c.
//
// Ownership  A block has a chunk of consecutive steps of some rows, and a lane L steps of a row
//            (device/scan/element_place.cuh). Their matrices and vectors lie in shared memory (element_slots.cuh)
//            from the load to the store: what is emitted takes the place of u, and the gradient of a matrix that of
//            the matrix.
// Passes     1. Every lane composes the maps of its steps, D^3 multiply-adds a step; maps are composed across lanes
//               and warps.
//            2. The block finds r before its chunk (element_chain.cuh), and every lane walks its steps, D^2 a step.
// Bytes      Every array is read or written once; for GRAD|GATE of a reduction, which has no y, a forward pass without
//            results writes y[t-1] of every step first. Chunks and groups of chunks exchange maps; what comes into a
//            link of groups is r alone.
// Bound      Latency: registers leave a multiprocessor 12 warps, which wait for all of their loads and then walk chains
//            of multiply-adds. Forward in f32 an H200 reaches 41 to 76 % of a copy (bench/results/tried_operators.md).
// Order      A reduction is a scan that writes only the last element of each row. The bits are fixed by the shape.
// Sync       A warp uses its own steps in shared memory alone, ordered by __syncwarp; the barriers are the chain's.
// Limits     D up to 4, matrices of up to 128 bytes in memory.
#pragma once

#include "cuda/device/scan/element_chain.cuh"
#include "cuda/device/scan/element_slots.cuh"
#include "cuda/operators/tiny_matrices.cuh"

namespace flashscan::cuda {

template <typename Wide, int D>
struct TinyVector {
    Wide m[D];
};

// y += w r, or w^H r.
template <bool Adjoint, typename Wide, int D>
__device__ __forceinline__ void add_product(const TinyMatrix<Wide, D>& w, const TinyVector<Wide, D>& r,
                                            TinyVector<Wide, D>& y) {
#pragma unroll
    for (int k = 0; k < D; ++k)
#pragma unroll
        for (int i = 0; i < D; ++i)
            y.m[i] = multiply_add(Adjoint ? conj(w.m[k * D + i]) : w.m[i * D + k], r.m[k], y.m[i]);
}

// How vectors lie in memory.
template <typename X, int D>
struct TinyVectors : TinyMemory<X, TinyVector<typename cuda::Element<X>::Wide, D>, D> {
    using Element = TinyVector<typename cuda::Element<X>::Wide, D>;
};

// The map r -> a r + c of a run of steps. A closed run, in which a sequence begins, has in c the r after it, and its a
// does not matter: carries are published by the words of c, which are the first, and what is appended to a closed run
// multiplies no matrices.
template <typename Wide, int D>
struct TinyAffineMaps {
    struct Element {
        TinyVector<Wide, D> c;
        TinyMatrix<Wide, D> a;
    };
    static constexpr int closed_words = ElementWords<TinyVector<Wide, D>>::count;

    // The map of the steps of l and then those of r.
    __device__ __forceinline__ Element combine(const Element& l, const Element& r) const {
        Element m{r.c, product<false, false>(r.a, l.a)};
        add_product<false>(r.a, l.c, m.c);
        return m;
    }
    __device__ __forceinline__ Element combine_closed(const Element& l, const Element& r) const {
        Element m{r.c, l.a};
        add_product<false>(r.a, l.c, m.c);
        return m;
    }
};

template <typename X, int D, bool Backward>
struct TinyAffine {
    using Wide = typename cuda::Element<X>::Wide;
    using Matrix = TinyMatrix<Wide, D>;
    using Vector = TinyVector<Wide, D>;
    using Maps = TinyAffineMaps<Wide, D>;
    using Map = typename Maps::Element;
    static constexpr int L = element_steps(sizeof(Matrix)), warps = element_warps(sizeof(Matrix));
    // Blocks per multiprocessor, for which __launch_bounds__ limits the registers: 3 blocks of 4 warps have 168 a lane.
    static constexpr int resident = sizeof(Map) <= 8 ? 4 : sizeof(Map) <= 80 ? 3 : 1;
    using Place = ElementPlace<L, warps>;
    using Chain = ElementChain<Maps, L, warps>;
    using Gates = ElementSlots<TinyMemory<X, Matrix, D * D>, L, warps>;
    using Steps = ElementSlots<TinyVectors<X, D>, L, warps>;
    using States = ElementSlots<TinyVectors<Wide, D>, L, warps>;
    static constexpr int before_offset = Gates::block_bytes + Steps::block_bytes;
    static constexpr int buffer_bytes = before_offset + (Backward ? States::block_bytes : 0);

    const TinyAffineParams& p;
    const Place& at;
    // In the order of this walk: backward a sequence begins at its last step and ends at its first.
    const ElementEdges& edges;
    const Gates& gates;    // W; backward its gradient in the end
    const Steps& steps;    // u, and what is emitted
    const States& before;  // backward: y[t-1]

    // adds_before(): a step is r = M (r + u), not r = M r + u. So it is backward in inclusive scans, where dy[t] is
    // part of g[t]. emits_before(): the step's result is r before the multiplication, after the addition of u if that
    // comes before. So it is backward and in exclusive scans.
    __device__ __forceinline__ bool adds_before() const { return Backward && p.mode != element_exclusive; }
    __device__ __forceinline__ bool emits_before() const { return Backward || p.mode == element_exclusive; }
    __device__ __forceinline__ bool starts() const { return p.start != nullptr || p.start_reduced != nullptr; }

    static __device__ __forceinline__ void add(Vector& to, const Vector& more) {
#pragma unroll
        for (int n = 0; n < D; ++n) to.m[n] = to.m[n] + more.m[n];
    }
    // The state, in `data`, of the sequence that step i belongs to.
    __device__ __forceinline__ Vector state(const void* data, int i) const {
        return TinyVectors<X, D>().load_state(static_cast<const char*>(data) +
                                              at.state(p.grid, i) * TinyVectors<X, D>::state_bytes);
    }
    // r where a sequence begins, with step i; leave() writes r where one has ended, with step i.
    __device__ __forceinline__ Vector enter(int i) const {
        Vector r{};
        if (p.start != nullptr) r = state(p.start, i);
        if (Backward && p.start_reduced != nullptr)
            add(r,
                TinyVectors<X, D>().load(
                    static_cast<const char*>(p.start_reduced) + at.state(p.grid, i) * TinyVectors<X, D>::bytes, false));
        return r;
    }
    __device__ __forceinline__ void leave(int i, const Vector& r) const {
        const int64_t place = at.state(p.grid, i);
        if (p.final != nullptr)
            TinyVectors<X, D>().store_state(static_cast<char*>(p.final) + place * TinyVectors<X, D>::state_bytes, r);
        if (!Backward && p.reduced != nullptr)
            TinyVectors<X, D>().store(static_cast<char*>(p.reduced) + place * TinyVectors<X, D>::bytes, r, false);
    }
    // Turns the r before a step into the r after it. After the first step of a sequence that starts from `nothing`, not
    // from a state, this is u itself, even if the first matrix has infinities or NaN; but where u is added before the
    // step, r holds it already and is multiplied.
    __device__ __forceinline__ void step(bool nothing, const Matrix& w, const Vector& u, Vector& r) const {
        Vector next{};
        if (!adds_before()) next = u;
        if (adds_before() || !nothing) add_product<Backward>(w, r, next);
        r = next;
    }

    // Loads y[t-1] of the lane's steps, all before the first is put into its slot, so that loads overlap. Before the
    // first step of a sequence there is none: what is loaded then lies within the array and is not used.
    __device__ __forceinline__ void load_before() const {
        const TinyVectors<X, D> op;
        const char* const from = static_cast<const char*>(p.before);
        const int64_t shift = p.prefix != prefix_inclusive ? 0 : p.grid.down != 0 ? -1 : 1;
        Vector y[L];
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            const int64_t t = min(max(at.time(p.grid, i) + shift, int64_t{0}), p.grid.time - 1);
            const int64_t place = at.element(p.grid, t);
            y[i] = p.prefix == prefix_wide ? op.load_state(from + place * op.state_bytes)
                                           : op.load(from + place * op.bytes, p.grid.aligned != 0);
        }
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (at.exists(i)) before.set(i, y[i]);
    }
    __device__ __forceinline__ void load() const {
        gates.load(p.gate);
        if (p.added != nullptr) steps.load(p.added);
        if (Backward && p.grad_gate != nullptr) load_before();
        Gates::await();
    }
    __device__ __forceinline__ Vector added(int i) const { return p.added != nullptr ? steps.get(i) : Vector{}; }

    // Whether all steps of the warp exist and none begins or ends a sequence.
    __device__ __forceinline__ bool plain() const {
        return at.whole && __all_sync(0xffffffffU, (edges.begin | edges.end) == 0) != 0;
    }
    // Pass 1: the run of the lane's steps. c is what r becomes if it is 0 before them, or from where a sequence begins
    // among them. plain() has a loop of its own, without the conditions that cost more than the arithmetic.
    __device__ __forceinline__ Run<Map> summarize() const { return plain() ? summarize_plain() : summarize_any(); }
    // Begins an open run with the map of one step.
    __device__ __forceinline__ void open(const Matrix& w, Run<Map>& run) const {
        run.tag = run_open;
#pragma unroll
        for (int n = 0; n < D * D; ++n) run.value.a.m[n] = Backward ? conj(w.m[n % D * D + n / D]) : w.m[n];
    }
    __device__ __forceinline__ Run<Map> summarize_plain() const {
        Run<Map> run;
        run.value.c = Vector{};
        const auto extend = [&](const Matrix& w, const Vector& u) {
            if (adds_before()) add(run.value.c, u);
            step(false, w, u, run.value.c);
        };
        const Matrix first = gates.get(0);
        open(first, run);
        extend(first, added(0));
#pragma unroll 1
        for (int i = 1; i < L; ++i) {
            const Matrix w = gates.get(i);
            run.value.a = product<Backward, false>(w, run.value.a);
            extend(w, added(i));
        }
        return run;
    }
    __device__ __forceinline__ Run<Map> summarize_any() const {
        Run<Map> run;
        run.tag = run_empty;
        run.value = Map{};
#pragma unroll 1
        for (int i = at.first; i < at.last; ++i) {
            const Matrix w = gates.get(i);
            const Vector u = added(i);
            const bool begins = ElementEdges::at(edges.begin, i);
            if (begins) {
                run.value.c = enter(i);
                run.tag = run_closed;
            } else if (run.tag == run_empty) {
                open(w, run);
            } else if (run.tag == run_open) {
                run.value.a = product<Backward, false>(w, run.value.a);
            }
            if (adds_before()) add(run.value.c, u);
            step(begins && !starts(), w, u, run.value.c);
        }
        return run;
    }

    // Pass 2: replaces u by what is emitted, and backward W by its gradient. The run before the lane's steps is empty
    // where they are the first of a row; otherwise it is closed, since every row begins with a state or 0, and c is r.
    __device__ __forceinline__ void walk(const Run<Map>& run) const {
        Vector r{};
        if (run.tag != run_empty) r = run.value.c;
        if (plain()) {
#pragma unroll 1
            for (int i = 0; i < L; ++i) walk(i, false, false, r);
        } else {
#pragma unroll 1
            for (int i = at.first; i < at.last; ++i)
                walk(i, ElementEdges::at(edges.begin, i), ElementEdges::at(edges.end, i), r);
        }
    }
    __device__ __forceinline__ void walk(int i, bool begins, bool ends, Vector& r) const {
        const Matrix w = gates.get(i);
        const Vector u = added(i);
        if (begins) r = enter(i);
        if (adds_before()) add(r, u);
        if (emits_before()) steps.set(i, r);
        if (Backward && p.grad_gate != nullptr) gates.set(i, gate_gradient(i, ends, r));
        if (!Backward && p.prefixes != nullptr)
            TinyVectors<X, D>().store_state(static_cast<char*>(p.prefixes) +
                                                at.element(p.grid, at.time(p.grid, i)) * TinyVectors<X, D>::state_bytes,
                                            r);
        step(begins && !starts(), w, u, r);
        if (!emits_before()) steps.set(i, r);
        if (ends) leave(i, r);
    }
    // g y[t-1]^H; before the first step of a sequence, with which this walk ends, y is STATE_IN or 0.
    __device__ __forceinline__ Matrix gate_gradient(int i, bool ends, const Vector& g) const {
        Vector y{};
        if (!ends)
            y = before.get(i);
        else if (p.state_in != nullptr)
            y = state(p.state_in, i);
        Matrix gradient;
#pragma unroll
        for (int n = 0; n < D * D; ++n) gradient.m[n] = g.m[n / D] * conj(y.m[n % D]);
        return gradient;
    }

    // Whether steps have results. A block without, and without the end of a sequence, only publishes what others need.
    __device__ __forceinline__ bool writes() const {
        return p.emitted != nullptr || (Backward ? p.grad_gate : p.prefixes) != nullptr;
    }
    __device__ __forceinline__ void store() const {
        if (p.emitted != nullptr) steps.store(p.emitted);
        if (Backward && p.grad_gate != nullptr) gates.store(p.grad_gate);
    }
};

template <typename X, int D, bool Backward>
__global__ void __launch_bounds__(32 * TinyAffine<X, D, Backward>::warps, TinyAffine<X, D, Backward>::resident)
    tiny_affine(const __grid_constant__ TinyAffineParams p) {
    using Pass = TinyAffine<X, D, Backward>;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    const typename Pass::Place at(p.grid);
    const typename Pass::Gates::Op matrices;
    const typename Pass::Steps::Op vectors;
    const typename Pass::States::Op states;
    const typename Pass::Gates gates{matrices, p.grid, at, memory};
    const typename Pass::Steps steps{vectors, p.grid, at, memory + Pass::Gates::block_bytes};
    const typename Pass::States before{states, p.grid, at, memory + Pass::before_offset};
    const ElementEdges edges(p.grid, at);
    const Pass pass{p, at, edges, gates, steps, before};
    const typename Pass::Maps maps;
    const typename Pass::Chain chain{maps, p.grid, at,
                                     reinterpret_cast<Run<typename Pass::Map>*>(memory + Pass::buffer_bytes)};
    pass.load();
    const bool wanted = pass.writes() || __syncthreads_or(edges.end != 0) != 0;
    const auto run = chain.find_before(pass.summarize(), wanted, [](int, const auto&) {});
    if (!wanted) return;
    pass.walk(run);
    pass.store();
}

}  // namespace flashscan::cuda
