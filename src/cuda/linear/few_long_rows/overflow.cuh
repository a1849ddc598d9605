// SPDX-License-Identifier: Apache-2.0
// What the kernels of few long rows do where products overflow.
//
// The warps that find carries note the rows in which one is not finite (in_order.cuh says why that tells). All warps
// that write count up when they are done, and then the noted rows are walked again, a row by a lane, from the carry that
// they start from to where the loop itself leaves the finite numbers, or to their end. That is slow, but rare, and costs
// other rows nothing.
#pragma once

#include "cuda/device/ptx/counter.cuh"
#include "cuda/linear/few_long_rows/params.h"
#include "cuda/linear/in_order.cuh"

namespace flashscan::cuda {

// A set of rows, of which those from 63 on are in it or not in it together.
struct RowSet {
    uint64_t bits = 0;
    static __device__ __forceinline__ uint64_t bit(uint32_t row) { return uint64_t{1} << min(row, 63U); }
    __device__ __forceinline__ void add(uint32_t row) { bits |= bit(row); }
    __device__ __forceinline__ bool has(uint32_t row) const { return (bits & bit(row)) != 0; }
    // The union of the sets of a warp's lanes.
    __device__ __forceinline__ RowSet of_warp() const {
        const uint32_t low = __reduce_or_sync(0xffffffffU, static_cast<uint32_t>(bits));
        const uint32_t high = __reduce_or_sync(0xffffffffU, static_cast<uint32_t>(bits >> 32));
        return {uint64_t{high} << 32 | low};
    }
};

// Whether a chunk, which `carry` enters and `next` leaves, may have to be walked again. Where its map is cut it begins a
// row, and `carry` is of another one.
template <typename Wide>
__device__ __forceinline__ bool overflows(bool cut, Wide carry, Wide next) {
    return !(cut || is_finite(carry)) || !is_finite(next);
}

// Walks a row again, from the carry that it starts from.
template <typename Ty, bool Down, bool Backward>
__device__ __noinline__ void walk_row_again(const LinearParams& p, uint32_t batch, int64_t row,
                                            typename Ty::Wide first) {
    using X = typename Ty::X;
    using Wide = typename Ty::Wide;
    constexpr int turn = Down ? -1 : 1;
    const auto store = [&](const View& view, int64_t t, Wide value) {
        char* const to = view.data + batch * view.batch + row * view.row + t * view.time;
        *reinterpret_cast<X*>(to) = Element<X>::narrow(value);
    };
    const int64_t from = Down ? p.time - 1 : 0, to = Down ? -1 : p.time;
    const auto take = [&](int64_t t, Wide, Wide y) {
        if (p.result.data != nullptr) store(p.result, t, y);
        if (!Backward || p.states.data == nullptr) return;
        Wide h{};
        if (t + turn != to)
            h = load_number<X>(p.states, batch, row, t + turn);
        else if (p.state_in != nullptr)
            h = static_cast<const Wide*>(p.state_in)[batch * p.rows + row];
        store(p.grad_gate, t, y * h);
    };
    const Wide last = walk_in_order<Ty, Down, Backward, true>(p, batch, row, from, to, first, take);
    if (p.edge_out != nullptr) static_cast<Wide*>(p.edge_out)[batch * p.rows + row] = last;
}

}  // namespace flashscan::cuda
