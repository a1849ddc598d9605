// SPDX-License-Identifier: Apache-2.0
// The summary of consecutive steps of a linear recurrence as it lies in memory, and the monoid of summaries.
#pragma once

#include "cuda/device/math/finite.cuh"
#include "cuda/device/scan/cut_mark.cuh"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// A summary as it lies in memory. Where a reset or the begin of a sequence cuts it off from the carry, `a` is a cut
// mark.
template <typename Ty>
struct Record {
    typename Ty::Wide x;
    typename Ty::GateWide a;
};

template <typename Ty>
__device__ __forceinline__ Record<Ty> to_record(const typename Ty::Map& m) {
    return {m.x, m.cut ? cut_mark(m.a) : m.a};
}
template <typename Ty>
__device__ __forceinline__ typename Ty::Map to_map(const Record<Ty>& r) {
    return {r.a, r.x, is_cut_mark(r.a)};
}

template <typename Ty>
__device__ __forceinline__ bool is_finite_map(const typename Ty::Map& m) {
    return is_finite(m.x) && (m.cut || is_finite(m.a));
}
// The map that gives `carry`, whatever carry enters it.
template <typename Ty>
__device__ __forceinline__ typename Ty::Map cut_map(typename Ty::Wide carry) {
    return {one(typename Ty::GateWide{}), carry, true};
}

// The linear recurrence as a monoid of chained scans (device/scan/chained_rows.cuh).
template <typename Ty>
struct LinearMonoid : Ty {
    using Record = cuda::Record<Ty>;
    using typename Ty::Map, typename Ty::Wide;
    static __device__ __forceinline__ Record to_record(const Map& m) { return cuda::to_record<Ty>(m); }
    static __device__ __forceinline__ Map to_map(const Record& r) { return cuda::to_map<Ty>(r); }
    static __device__ __forceinline__ Wide start() { return {}; }
    static __device__ __forceinline__ bool is_cut(const Map& m) { return m.cut; }
    static __device__ __forceinline__ bool is_finite(const Map& m) { return is_finite_map<Ty>(m); }
    static __device__ __forceinline__ Map cut_to(Wide carry) { return cut_map<Ty>(carry); }
    // Chunks that look back publish late each carry that is not finite, and each such map where results take the place
    // of their source (in_order.cuh).
    static __device__ __forceinline__ bool withholds(const LinearParams& p, const Map& m) {
        return p.in_place != 0 && !is_finite(m);
    }
    static __device__ __forceinline__ bool withholds(Wide carry) { return !cuda::is_finite(carry); }
};

}  // namespace flashscan::cuda
