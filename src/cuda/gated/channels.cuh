// SPDX-License-Identifier: Apache-2.0
// The parameters of a block's channels, computed once for all of its steps into shared memory: the rate of the decay
// with its slope, and BIAS (math/gated.h).
#pragma once

#include "cuda/gated/tile.cuh"

namespace flashscan::cuda {

template <typename Shape>
struct GatedChannels {
    using X = typename Shape::X;
    using R = typename Shape::R;
    static constexpr int V = Shape::V;
    struct Shared {
        R rate[Shape::most_channels], slope[Shape::backward ? Shape::most_channels : 1], bias[Shape::most_channels];
    };

    static __device__ __forceinline__ R parameter(const GatedParams& p, const void* data, int64_t c) {
        return p.wide_params ? static_cast<const R*>(data)[c] : Element<X>::widen(static_cast<const X*>(data)[c]);
    }
    template <typename Tile>
    static __device__ __forceinline__ int first_in_block(const Tile& t) {
        return t.warp_group * Shape::warp_channels + (Shape::by_time ? 0 : t.lane * V);
    }

    template <typename Parts>
    static __device__ __forceinline__ bool has_any(const GatedParams& p) {
        return (Parts::has_param && p.param != nullptr) || (Parts::has_bias && p.bias != nullptr);
    }

    // Computes the parameters of the block's channels. It ends with __syncthreads if there are any.
    template <typename Parts, typename Tile>
    static __device__ __forceinline__ void look_up(const GatedParams& p, const Tile& t, Shared& shared) {
        if (!has_any<Parts>(p)) return;
        const int count = Shape::warp_channels * (Shape::warps >> p.log2_time_warps);
        const int64_t first = int64_t{t.channel} - first_in_block(t);
        for (int k = static_cast<int>(threadIdx.x); k < count && first + k < p.channels; k += Shape::threads) {
            if (Parts::has_bias) shared.bias[k] = p.bias == nullptr ? R(0) : parameter(p, p.bias, first + k);
            if (p.param == nullptr) continue;
            const auto rate = gated::rate_of(static_cast<Decay>(p.decay), parameter(p, p.param, first + k),
                                             static_cast<R>(p.decay_rate));
            shared.rate[k] = rate.value;
            if (Shape::backward) shared.slope[k] = rate.slope;
        }
        __syncthreads();
    }
    // Loads the parameters of a lane's channels into registers.
    template <typename Parts, typename Tile>
    static __device__ __forceinline__ void take(const GatedParams& p, const Tile& t, const Shared& shared, R (&rate)[V],
                                                R (&bias)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            rate[v] = bias[v] = R(0);
            if (v >= t.channels || !has_any<Parts>(p)) continue;
            if (Parts::has_param && p.param != nullptr) rate[v] = shared.rate[first_in_block(t) + v];
            if (Parts::has_bias) bias[v] = shared.bias[first_in_block(t) + v];
        }
        if constexpr (Parts::has_param && sizeof(R) == 4)
#pragma unroll
            for (int v = 0; v < V; ++v)
                asm("" : "+f"(rate[v]));  // otherwise the compiler loads it again for every step
    }
};

}  // namespace flashscan::cuda
