// SPDX-License-Identifier: Apache-2.0
// Sums over the lanes of a warp, or of a part of it, in a fixed order.
#pragma once

#include <cuda_runtime.h>

namespace flashscan::cuda {

// A reduce-scatter over `Lanes` lanes: sums K values each, K up to `Lanes`; both are powers of two. Lane l gets the sum
// of value l / (Lanes / K): with each exchange a lane passes half of its values on to where they belong.
// distance(offset) is how many threads lie between lanes that are `offset` apart.
template <int Lanes, int K, typename R, typename Distance>
__device__ __forceinline__ R sum_over_lanes(R (&values)[K], int lane, Distance&& distance) {
    static_assert(K <= Lanes);
    int count = K;
#pragma unroll
    for (int offset = Lanes / 2; offset >= 1; offset /= 2) {
        if (count > 1) {
            count /= 2;
            const bool upper = (lane & offset) != 0;
#pragma unroll
            for (int i = 0; i < K / 2; ++i) {
                if (i >= count) break;
                const R mine = upper ? values[count + i] : values[i], other = upper ? values[i] : values[count + i];
                values[i] = mine + __shfl_xor_sync(0xffffffffU, other, distance(offset));
            }
        } else {
            values[0] += __shfl_xor_sync(0xffffffffU, values[0], distance(offset));
        }
    }
    return values[0];
}
// The same for neighbouring lanes.
template <int Lanes, int K, typename R>
__device__ __forceinline__ R sum_over_lanes(R (&values)[K], int lane) {
    return sum_over_lanes<Lanes>(values, lane, [](int offset) { return offset; });
}

}  // namespace flashscan::cuda
