// SPDX-License-Identifier: Apache-2.0
// Numbers of dtype X as a team multiplies them, and computes with them. Tensor cores take 16 bits: an f32 is the sum of
// three bf16, each the rounded rest of those before it. Of their nine products six make up the precision of f32; what
// is left out is below 2^-25 of the whole.
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

// The planes of a number; of one that is not finite, or rounds to infinity, NaN past the first.
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
