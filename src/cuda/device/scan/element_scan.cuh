// SPDX-License-Identifier: Apache-2.0
// The kernel that scans or reduces elements that fit a thread's registers, under any associative operator.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  A block owns a chunk of consecutive steps of some rows, a lane L of the steps of a row, in registers.
// Passes     1. Every lane combines its steps into one element, which is combined across lanes and warps.
//            2. The block finds what is before its chunk (element_chain.cuh), and every lane walks its steps from
//               there.
// Bytes      Every element is read once and written once, and a few for each chunk, which chunks hand each other.
// Order      The bracketing is fixed by the problem's shape, and with it every bit. A reduction is the scan that writes
//            its last elements alone.
// Combines   2 - 1 / L + log2(lanes in time) / L for each element and a few more for each chunk; of elements that
//            exist, never of identities or padding.
// Sync       A block's warps meet at barriers. What passes between blocks validates itself
//            (device/exchange/element_words.cuh): there are no flags and no fences. Blocks wait for blocks of lower
//            index only.
// Limits     Elements of registers' size; the header compiles with NVRTC and includes none but ours.
//
// An operator is
//
//     struct Op {
//         using Element = ..;                 // of any trivially copyable type
//         static constexpr int bytes;         // of an element in INPUT and OUTPUT
//         static constexpr int state_bytes;   // in STATE_IN and STATE_OUT
//         static constexpr bool has_identity;
//         static constexpr bool has_parts;    // loads and stores differ by `aligned`
//         static constexpr bool has_gradients;  // the scan may be asked for marks and prefixes
//         Op(int32_t kind, const void* state);
//         Element combine(const Element& l, const Element& r) const;
//         Element combine_rarely(const Element& l, const Element& r) const;  // the same, in less code
//         Element load(const char* from, bool aligned) const;    // aligned: to the largest power of 2 up to 16 in
//     bytes void store(char* to, const Element& y, bool aligned) const;
//         Element load_state(const char* from) const;            // of any alignment that states may have
//         void store_state(char* to, const Element& y) const;
//         Element identity() const;           // if has_identity
//     };
#pragma once

#include "cuda/device/scan/element_chain.cuh"
#include "cuda/device/scan/element_tile.cuh"

namespace flashscan::cuda {

// Out of line: they are rare, and in unrolled loops.
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
}

// Registers of an element: an operator whose elements are several numbers says how many they take.
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
    // Blocks of a multiprocessor: registers are held to that.
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
    bool plain;  // all steps of the warp exist, and none begins or ends a sequence

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

    // Replaces the elements by those of OUTPUT.
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
    // y at the beginning of a sequence; whether there is any.
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

// Items: ElementRegisters or ElementSlot.
template <typename Op, typename Items>
__device__ __forceinline__ void scan_items(const ElementScanParams& p, const Op& op,
                                           const typename ElementScan<Op>::Place& at,
                                           const typename ElementScan<Op>::Tile& tile, char* runs, Items& items) {
    using Scan = ElementScan<Op>;
    using R = typename Scan::R;
    const ElementEdges edges(p.grid, at);
    const Scan scan(p, op, at, edges);
    const typename Scan::Chain chain{op, p.grid, at, reinterpret_cast<R*>(runs)};
    void* const marks = Scan::marks(p);
    const bool writes = p.output != nullptr || Scan::prefixes(p) != nullptr;
    const bool wanted = writes || marks != nullptr || __syncthreads_or(edges.end != 0) != 0;
    const R before = chain.find_before(scan.summarize(items), wanted, [&](int row, const R& carry) {
        if (marks != nullptr) static_cast<R*>(marks)[chain.place(at.chunk, row)] = carry;
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
        scan_items<Op>(p, op, at, tile, runs, items);
        if (p.output != nullptr) tile.store(p.output, items);
    } else {
        ElementRegisters<Op, Scan::L> items;
        tile.load(p.input, items.item);
        scan_items<Op>(p, op, at, tile, runs, items);
        if (p.output != nullptr) tile.store(p.output, items.item);
        if (Scan::prefixes(p) != nullptr) tile.store_wide(p.prefixes, items.item);
    }
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
__global__ void __launch_bounds__(32 * ElementScan<Op>::warps, ElementScan<Op>::resident)
    element_scan(const __grid_constant__ ElementScanParams p) {
    scan_elements<Op>(p);
}

template <typename Op>
__global__ void __launch_bounds__(256) element_empty(const __grid_constant__ EmptyElementParams p) {
    pass_empty_elements<Op>(p);
}

}  // namespace flashscan::cuda
