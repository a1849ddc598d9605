// SPDX-License-Identifier: Apache-2.0
// Scans over the lanes of a warp that hold consecutive steps of a row.
#pragma once

#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// The segments of a row in a warp, counted in the order of the walk: a segment is the L steps of one lane.
template <typename Monoid, typename Shape, bool Down>
struct Segments {
    const Place& at;
    // The distance in lanes from one segment of a row to the next.
    __device__ __forceinline__ int neighbour() const { return Shape::time_inner ? 1 : 1 << at.log2_rows; }
    __device__ __forceinline__ int count() const { return at.segments(); }
    // The number of the lane's own segment.
    __device__ __forceinline__ int mine() const { return Down ? at.segments() - 1 - at.segment : at.segment; }
    __device__ __forceinline__ bool is_last() const { return mine() == count() - 1; }
    __device__ __forceinline__ int last_lane() const { return lane_before(mine() - count() + 1); }
    __device__ __forceinline__ int lane_before(int distance) const {
        return (Down ? at.lane + distance * neighbour() : at.lane - distance * neighbour()) & 31;
    }
    // Inclusive scan over the segments: `m`, the summary of the lane's segment, becomes the composition of the
    // summaries of all segments up to and including it.
    __device__ __forceinline__ void scan(typename Monoid::Map& m) const {
        for (int distance = 1; distance < count(); distance *= 2) {
            const typename Monoid::Map earlier = Monoid::shuffle_map(m, lane_before(distance));
            if (mine() >= distance) m = Monoid::compose(earlier, m);
        }
    }
    // The same for N tiles, each by itself. There are no branches, so that the steps of their scans overlap: lanes
    // without an earlier segment compose with the identity.
    template <int N>
    __device__ __forceinline__ void scan(typename Monoid::Map (&m)[N]) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            if (distance >= count()) return;
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const typename Monoid::Map earlier = Monoid::shuffle_map(m[n], lane_before(distance));
                m[n] = Monoid::compose(mine() >= distance ? earlier : Monoid::identity(), m[n]);
            }
        }
    }
    // Returns the carry into the lane's segment, given the carry into the row's first one; `through` is the result of
    // scan.
    __device__ __forceinline__ typename Monoid::Wide enter(const typename Monoid::Map& through,
                                                           typename Monoid::Wide carry) const {
        const typename Monoid::Map before = Monoid::shuffle_map(through, lane_before(1));
        return mine() > 0 ? Monoid::apply(before, carry) : carry;
    }
};

}  // namespace flashscan::cuda
