// SPDX-License-Identifier: Apache-2.0
// The kernel element_scan, which scans or reduces elements of any type under any associative operator: a single-pass
// scan with look-back, for elements that fit a thread's registers.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  A block owns a chunk of consecutive steps of some rows. A lane has L steps of one row, in registers or,
//            for elements of 16 bytes and more, in shared memory.
// Passes     1. Every lane combines its steps into one element, which is combined across lanes and warps.
//            2. The block finds what is before its chunk (element_chain.cuh), and every lane walks its steps from
//               there.
// Bytes      Every element is read once and written once, and for each row and chunk a few more, through which chunks
//            exchange runs.
// Order      The bracketing is fixed by the problem's shape, and with it every bit. A reduction is a scan that writes
//            only the last element of each row.
// Work       The operator is applied 2 - 1 / L + log2(lanes in time) / L times for each element and a few more times
//            for each chunk, to elements that exist, never to identities or padding.
// Bound      The barriers of a block: maxima with INDEX take 1.3 to 2.5 times as long as by chained scans.
// Sync       A block's warps synchronise by __syncthreads and named barriers. What passes between blocks shows by its
//            own words whether it has arrived (device/exchange/element_words.cuh): there are no flags and no fences.
//            Blocks wait for blocks of lower index only.
// Limits     Elements must fit a thread's registers. The header also compiles with NVRTC, so it includes only headers
//            of this library.
//
// Elements   What is combined may be unlike what memory has. sizeof(Element) gives the steps of a lane and the warps of
//            a block, the bytes in memory give the buffer. An element may have padding and any bits: shuffles and
//            blocks exchange it as words, and shared memory holds runs of it, at the alignment of its type, up to 16.
// Buffer     The lanes of a warp have slots in it, whose distance follows from the bytes of an element in memory
//            (element_tile.cuh), and the runs of warps lie behind it. Only __syncwarp orders what warps do there. So
//            arrays whose elements have other bytes need a buffer of their own: with another distance the slots of one
//            warp would lie on those of the next, or on the runs.
//
// An operator is a struct of this form:
//
//     struct Op {
//         using Element = ..;                 // any trivially copyable type
//         static constexpr int bytes;         // bytes of an element in INPUT and OUTPUT
//         static constexpr int state_bytes;   // bytes of an element in STATE_IN and STATE_OUT
//         static constexpr bool has_identity;
//         static constexpr bool has_parts;    // whether `aligned` makes a difference to loads and stores
//         static constexpr bool has_gradients;  // whether the scan may be asked for marks and prefixes
//         static constexpr bool has_index;    // whether an element knows the step that it comes from
//         Op(int32_t kind, const void* state);
//         Element combine(const Element& l, const Element& r) const;
//         Element combine_rarely(const Element& l, const Element& r) const;  // the same result from less code
//         // aligned: the address is a multiple of the largest power of 2, up to 16, that divides `bytes`
//         Element load(const char* from, bool aligned) const;
//         void store(char* to, const Element& y, bool aligned) const;
//         Element load_state(const char* from) const;            // the address has any alignment that states may have
//         void store_state(char* to, const Element& y) const;
//         Element identity() const;           // if has_identity
//         void store_index(void* index, int64_t place, const Element& y) const;  // if has_index
//     };
#pragma once

#include "cuda/device/scan/element_chain.cuh"
#include "cuda/device/scan/element_tile.cuh"

namespace flashscan::cuda {

// These two are not inlined, because they are rarely called, from unrolled loops.
template <typename Op>
__device__ __noinline__ typename Op::Element load_initial(const ElementScanParams& p, int64_t batch, int64_t row,
                                                          int64_t t0, int i) {
    const Op op(p.kind, p.operator_state);
    const int64_t t = element_time<element_steps(sizeof(typename Op::Element))>(p.grid, t0, i);
    return op.load_state(static_cast<const char*>(p.state_in) + element_state(p.grid, batch, row, t) * Op::state_bytes);
}
template <typename Op>
__device__ __noinline__ void store_final(const ElementScanParams& p, int64_t batch, int64_t row, int64_t t0, int i,
                                         typename Op::Element y) {
    const Op op(p.kind, p.operator_state);
    const int64_t t = element_time<element_steps(sizeof(typename Op::Element))>(p.grid, t0, i);
    const int64_t state = element_state(p.grid, batch, row, t);
    if (p.state_out != nullptr) op.store_state(static_cast<char*>(p.state_out) + state * Op::state_bytes, y);
    if (p.reduced != nullptr) op.store(static_cast<char*>(p.reduced) + state * Op::bytes, y, false);
    if constexpr (Op::has_index)
        if (p.reduced != nullptr) op.store_index(p.index, state, y);
}

// The registers that an element takes. An operator whose elements are several numbers may state them.
template <typename Op>
constexpr int registers_of() {
    if constexpr (requires { Op::registers; })
        return Op::registers;
    else
        return (static_cast<int>(sizeof(typename Op::Element)) + 3) / 4;
}

template <typename Op>
struct ElementScan {
    using Element = typename Op::Element;
    static constexpr int L = element_steps(sizeof(typename Op::Element)), warps = element_warps(sizeof(Element));
    static constexpr int buffers = element_buffer_bytes(Op::bytes, L, warps);
    static constexpr bool kept = element_is_kept(Op::bytes);
    static constexpr int unrolled = kept ? 1 : L;
    // Blocks per multiprocessor, for which __launch_bounds__ limits the registers.
    static constexpr int resident = registers_of<Op>() <= 1                           ? 4
                                    : registers_of<Op>() <= 4 && sizeof(Element) <= 8 ? 2
                                                                                      : 1;
    using Place = ElementPlace<L, warps>;
    using Chain = ElementChain<Op, L, warps>;
    using Tile = ElementTile<Op, L, warps>;
    using R = Run<Element>;

    const ElementScanParams& p;
    const Op& op;
    const Place& at;
    const ElementEdges& edges;
    bool plain;  // whether all steps of the warp exist and none begins or ends a sequence

    static __device__ __forceinline__ void* marks(const ElementScanParams& p) {
        return Op::has_gradients ? p.marks : nullptr;
    }
    static __device__ __forceinline__ void* prefixes(const ElementScanParams& p) {
        return Op::has_gradients ? p.prefixes : nullptr;
    }

    __device__ __forceinline__ ElementScan(const ElementScanParams& p_, const Op& op_, const Place& at_,
                                           const ElementEdges& edges_)
        : p(p_),
          op(op_),
          at(at_),
          edges(edges_),
          plain(at_.whole && __all_sync(0xffffffffU, (edges_.begin | edges_.end) == 0) != 0) {}

    // Pass 1: the run of the lane's steps.
    template <typename Items>
    __device__ __forceinline__ R summarize(const Items& items) const {
        R run;
        if (!kept && plain) {
            run.value = items.get(0);
            run.tag = run_open;
#pragma unroll
            for (int i = 1; i < L; ++i) run.value = op.combine(run.value, items.get(i));
            return run;
        }
        run.tag = run_empty;
#pragma unroll unrolled
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            bool any = run.tag != run_empty;
            if (ElementEdges::at(edges.begin, i)) {
                run.tag = run_closed;
                any = enter(i, run.value);
            } else if (!any) {
                run.tag = run_open;
            }
            extend(any, run.value, items.get(i));
        }
        return run;
    }

    // Pass 2: replaces the lane's elements by those of OUTPUT; `before` is the run of everything before them.
    template <typename Items>
    __device__ __forceinline__ void walk(const R& before, Items& items) const {
        const bool exclusive = p.mode == element_exclusive;
        Element y = before.value;
        if (!kept && plain) {
#pragma unroll
            for (int i = 0; i < L; ++i) {
                const Element next = op.combine(y, items.get(i));
                items.set(i, exclusive ? y : next);
                y = next;
            }
            return;
        }
        bool any = before.tag != run_empty;
#pragma unroll unrolled
        for (int i = 0; i < L; ++i) {
            if (!at.exists(i)) continue;
            if (ElementEdges::at(edges.begin, i)) any = enter(i, y);
            const Element x = items.get(i);
            if (exclusive) {
                if constexpr (Op::has_identity)
                    if (!any) y = op.identity();
                items.set(i, y);
                if (kept && prefixes(p) != nullptr) store_prefix(i, y);
            }
            extend(any, y, x);
            any = true;
            if (!exclusive) items.set(i, y);
            if (ElementEdges::at(edges.end, i)) leave(i, y);
        }
    }

  private:
    __device__ __forceinline__ void extend(bool any, Element& y, const Element& x) const {
        if (any)
            y = op.combine_rarely(y, x);
        else
            y = x;
    }
    // Sets y to STATE_IN at the begin of a sequence; returns whether there is one.
    __device__ __forceinline__ bool enter(int i, Element& y) const {
        if (p.state_in == nullptr) return false;
        if constexpr (kept)
            y = op.load_state(static_cast<const char*>(p.state_in) + at.state(p.grid, i) * Op::state_bytes);
        else
            y = load_initial<Op>(p, at.batch, at.row, at.t0, i);
        return true;
    }
    __device__ __forceinline__ void leave(int i, const Element& y) const {
        if constexpr (kept) {
            const int64_t state = at.state(p.grid, i);
            if (p.state_out != nullptr) op.store_state(static_cast<char*>(p.state_out) + state * Op::state_bytes, y);
            if (p.reduced != nullptr) op.store(static_cast<char*>(p.reduced) + state * Op::bytes, y, false);
        } else {
            store_final<Op>(p, at.batch, at.row, at.t0, i, y);
        }
    }
    __device__ __forceinline__ void store_prefix(int i, const Element& y) const {
        op.store_state(static_cast<char*>(p.prefixes) + at.element(p.grid, at.time(p.grid, i)) * Op::state_bytes, y);
    }
};

// Both passes. Items is ElementRegisters or ElementSlot (element_tile.cuh).
template <typename Op, typename Items>
__device__ __forceinline__ void scan_items(const ElementScanParams& p, const Op& op,
                                           const typename ElementScan<Op>::Place& at, char* runs, Items& items) {
    using Scan = ElementScan<Op>;
    using R = typename Scan::R;
    const ElementEdges edges(p.grid, at);
    const Scan scan(p, op, at, edges);
    const typename Scan::Chain chain{op, p.grid, at, reinterpret_cast<R*>(runs)};
    void* const marks = Scan::marks(p);
    const bool writes = p.output != nullptr || Scan::prefixes(p) != nullptr;
    const bool wanted = writes || marks != nullptr || __syncthreads_or(edges.end != 0) != 0;
    const R before = chain.find_before(scan.summarize(items), wanted, [&](int row, const R& carry) {
        if (marks != nullptr) static_cast<R*>(marks)[chain.place(chain.chunk, row)] = carry;
    });
    if (!wanted || marks != nullptr || (!writes && scan.plain)) return;
    scan.walk(before, items);
}

template <typename Op>
__device__ __forceinline__ void scan_elements(const ElementScanParams& p) {
    using Scan = ElementScan<Op>;
    extern __shared__ __align__(16) char memory[];
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.grid.chunks) return;
    char* const runs = memory + (Scan::kept || p.grid.time_inner != 0 ? Scan::buffers : 0);
    const Op op(p.kind, p.operator_state);
    const typename Scan::Place at(p.grid);
    const typename Scan::Tile tile{op, p.grid, at, memory};
    if constexpr (Scan::kept) {
        ElementSlot<Op> items = tile.slot();
        tile.load(p.input, items);
        scan_items<Op>(p, op, at, runs, items);
        if (p.output != nullptr) tile.store(p.output, items);
    } else {
        ElementRegisters<Op, Scan::L> items;
        tile.load(p.input, items.item);
        scan_items<Op>(p, op, at, runs, items);
        if (p.output != nullptr) tile.store(p.output, items.item);
        if (Scan::prefixes(p) != nullptr) tile.store_wide(p.prefixes, items.item);
    }
}

// Writes the final states of rows and sequences without steps; each thread takes one.
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
    if constexpr (Op::has_index)
        if (p.reduced != nullptr) op.store_index(p.index, chain, y);
}

template <typename Op>
__global__ void __launch_bounds__(32 * ElementScan<Op>::warps, ElementScan<Op>::resident)
    element_scan(const __grid_constant__ ElementScanParams p) {
    scan_elements<Op>(p);
}

template <typename Op>
__global__ void __launch_bounds__(256) element_empty(const __grid_constant__ EmptyElementParams p) {
    pass_empty_elements<Op>(p);
}

}  // namespace flashscan::cuda
