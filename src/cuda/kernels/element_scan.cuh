// SPDX-License-Identifier: Apache-2.0
// Prefix scans and reductions of elements that fit a thread's registers, under any associative operator.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  A block owns a chunk of consecutive steps of some rows, a lane L of the steps of a row, in registers.
// Passes     1. every lane combines its steps into one element, which is combined across lanes and warps
//            2. the block finds what is before its chunk (element_chain.cuh), and every lane walks its steps from there
// Bytes      Reads and writes every element once, and a few a chunk for what chunks hand each other.
// Order      The bracketing is fixed by the problem, and with it every bit. A reduction is the scan that writes its last
//            elements alone.
// Combines   2 - 1 / L + log2(lanes in time) / L an element and a few more a chunk; of elements that exist, never of
//            identities or padding.
// Sync       What passes between blocks validates itself (element_words.cuh): no flags, no fences.
// NVRTC      Compiles without any header but ours.
//
// An operator is
//
//     struct Op {
//         using Element = ..;                 // of any trivially copyable type
//         static constexpr int bytes;         // of an element in INPUT and OUTPUT
//         static constexpr int state_bytes;   // in STATE_IN and STATE_OUT
//         static constexpr bool has_identity;
//         Op(int32_t kind, const void* state);
//         Element combine(const Element& l, const Element& r) const;
//         Element load(const char* from, bool aligned) const;    // aligned: to the largest power of 2 up to 16 in bytes
//         void store(char* to, const Element& y, bool aligned) const;
//         Element load_state(const char* from) const;            // of any alignment that states may have
//         void store_state(char* to, const Element& y) const;
//         Element identity() const;           // if has_identity
//     };
#pragma once

#include "cuda/kernels/element_chain.cuh"
#include "cuda/kernels/element_tile.cuh"

namespace flashscan::cuda {

template <typename Op>
struct ElementScan {
    using Element = typename Op::Element;
    static constexpr int L = element_steps(Op::bytes), warps = element_warps(sizeof(Element));
    using Place = ElementPlace<L, warps>;
    using Chain = ElementChain<Op, L, warps>;
    using Tile = ElementTile<Op, L, warps>;
    using R = Run<Element>;

    const ElementScanParams& p;
    const Op& op;
    const Place& at;
    const ElementEdges& edges;

    __device__ __forceinline__ Element initial(int i) const {
        return op.load_state(static_cast<const char*>(p.state_in) + at.state(p.grid, i) * Op::state_bytes);
    }

    __device__ __forceinline__ R summarize(const Element (&items)[L]) const {
        R run;
        run.tag = run_empty;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.begin, i)) {
                run.value = p.state_in != nullptr ? op.combine(initial(i), items[i]) : items[i];
                run.tag = run_closed;
            } else if (run.tag == run_empty) {
                run.value = items[i];
                run.tag = run_open;
            } else {
                run.value = op.combine(run.value, items[i]);
            }
        }
        return run;
    }

    // Replaces the elements by those of OUTPUT.
    __device__ __forceinline__ void walk(const R& before, Element (&items)[L]) const {
        Element y = before.value;
        bool any = before.tag != run_empty;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.begin, i)) {
                any = p.state_in != nullptr;
                if (any) y = initial(i);
            }
            const Element next = any ? op.combine(y, items[i]) : items[i];
            if (p.mode == element_exclusive) {
                if constexpr (Op::has_identity)
                    items[i] = any ? y : op.identity();
                else
                    items[i] = y;
            } else {
                items[i] = next;
            }
            y = next;
            any = true;
            if (ElementEdges::at(edges.end, i)) leave(i, y);
        }
    }
    __device__ __forceinline__ void leave(int i, const Element& y) const {
        const int64_t state = at.state(p.grid, i);
        if (p.state_out != nullptr) op.store_state(static_cast<char*>(p.state_out) + state * Op::state_bytes, y);
        if (p.reduced != nullptr) op.store(static_cast<char*>(p.reduced) + state * Op::bytes, y, false);
    }
};

template <typename Op>
__device__ __forceinline__ void scan_elements(const ElementScanParams& p) {
    using Scan = ElementScan<Op>;
    using R = typename Scan::R;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    const Op op(p.kind, p.operator_state);
    const typename Scan::Place at(p.grid);
    typename Scan::Element items[Scan::L];
    const typename Scan::Tile tile{op, p.grid, at};
    tile.load(p.input, items);
    const ElementEdges edges(p.grid, at);
    const Scan scan{p, op, at, edges};
    const typename Scan::Chain chain{op, p.grid, at, reinterpret_cast<R*>(memory)};
    const R before = chain.find_before(scan.summarize(items), [&](int row, const R& carry) {
        if (p.marks != nullptr) static_cast<R*>(p.marks)[chain.place(at.chunk, row)] = carry;
    });
    if (p.marks != nullptr) return;
    scan.walk(before, items);
    if (p.output != nullptr) tile.store(p.output, items);
    if (p.prefixes != nullptr) tile.store_wide(p.prefixes, items);
}

// A thread a chain.
template <typename Op>
__device__ __forceinline__ void pass_empty_elements(const EmptyElementParams& p) {
    const int64_t chain = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (chain >= p.chains) return;
    if (p.offsets.data != nullptr) {
        const int64_t n = chain / p.rows;
        if (load_offset(p.offsets, n) < load_offset(p.offsets, n + 1)) return;
    }
    const Op op(p.kind, p.operator_state);
    typename Op::Element y;
    if (p.state_in != nullptr) {
        y = op.load_state(static_cast<const char*>(p.state_in) + chain * Op::state_bytes);
    } else {
        if constexpr (Op::has_identity)
            y = op.identity();
        else
            return;
    }
    if (p.state_out != nullptr) op.store_state(static_cast<char*>(p.state_out) + chain * Op::state_bytes, y);
    if (p.reduced != nullptr) op.store(static_cast<char*>(p.reduced) + chain * Op::bytes, y, false);
}

template <typename Op>
__global__ void __launch_bounds__(32 * ElementScan<Op>::warps)
    element_scan(const __grid_constant__ ElementScanParams p) {
    scan_elements<Op>(p);
}

template <typename Op>
__global__ void __launch_bounds__(256) element_empty(const __grid_constant__ EmptyElementParams p) {
    pass_empty_elements<Op>(p);
}

}  // namespace flashscan::cuda
