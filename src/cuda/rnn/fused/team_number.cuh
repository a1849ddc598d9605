// SPDX-License-Identifier: Apache-2.0
// Split precision: how a team multiplies numbers of dtype X on tensor cores, which take 16 bits. An f32 is split into
// the sum of three bf16, called planes, each the rounded remainder of those before it. Of their nine products six are
// computed; the others are below 2^-25 of the product.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/rnn/real.cuh"

namespace flashscan::cuda {

template <typename X>
struct TeamNumber {
    using Half = X;
    using Real = typename RnnReal<X>::Type;
    static constexpr int planes = 1;
};
template <>
struct TeamNumber<float> {
    using Half = __nv_bfloat16;
    using Real = RnnReal<float>::Type;
    static constexpr int planes = 3;
};

// The planes of a number. Where it is not finite or rounds to infinity, the planes past the first are NaN.
template <typename X>
struct TeamHalves {
    using Half = typename TeamNumber<X>::Half;
    static constexpr int planes = TeamNumber<X>::planes;
    uint32_t bits[planes];

    __device__ __forceinline__ explicit TeamHalves(float x) {
#pragma unroll
        for (int plane = 0; plane < planes; ++plane) {
            bits[plane] = Element<Half>::narrow_pair(x, 0.0F);  // four times as fast as one alone
            if (plane + 1 < planes) x -= Element<Half>::widen_half(bits[plane], 0);
        }
    }
};

}  // namespace flashscan::cuda
