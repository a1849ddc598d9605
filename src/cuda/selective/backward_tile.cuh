// SPDX-License-Identifier: Apache-2.0
// The backward pass of the kernel "resident" (backward.cuh) keeps this in shared memory for a tile of steps.
#pragma once

#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

template <typename Shape>
struct SelectiveBackwardTile : SelectiveMatrices<Shape, Shape::backward_steps> {
    using V = typename Shape::V;
    using Values = SelectiveValues<Shape, Shape::backward_steps>;
    // How far apart the numbers of two lanes lie: those of a warp's channels, and with four lanes a gap of four.
    static constexpr int pitch = Shape::warp_channels + (Shape::lanes == 4 ? 4 : 0);
    // Returns where the numbers of a lane and of one of the warp's channels lie among those of a step. Neither lanes
    // that store them nor lanes that add those of all channels have bank conflicts, but for numbers of more than 16
    // bytes.
    static __device__ __forceinline__ int place(int lane, int channel) {
        return lane * pitch + (Shape::lanes == 4 ? -(lane / 2 * 2) : lane / (Shape::lanes / 4)) + channel;
    }
    using Numbers = LaneNumbers<V, Shape::states>;
    static constexpr int warps = Shape::threads / 32;
    // Whether a warp has so few channels that it adds their terms in registers.
    static constexpr bool in_registers = Shape::warp_channels <= 2;
    using Terms = Numbers[in_registers ? 1 : Shape::summed][Shape::lanes * pitch + (Shape::lanes == 4 ? -5 : 4)];
    // Whether the sums of a warp take the place of its terms. Otherwise they have a place of their own.
    static constexpr bool in_place = !in_registers && Shape::summed == Shape::kept_steps;
    // The steps for which the sums of all warps are added at a time: those of a tile, if there is room for them.
    static constexpr int joined = in_registers || in_place ? Shape::kept_steps : Shape::backward_steps;
    Values delta, scaled, e;  // d, d u, e
    Values input;             // u, then its gradient
    Values slope;             // d', then the gradient of DELTA
    Values gate;              // the factor of y in the gradient of z, then that gradient
    // A warp stores here the terms of `summed` steps, g for GRAD|B and states for GRAD|C, which are sums over channels,
    // unless it adds them in registers. Where B or C are constant, the place of the first step holds the sums of a lane
    // over steps.
    Terms b[warps], c[warps];
    Numbers sums[in_place ? 1 : 2 * warps * joined * Shape::lanes];

    // The sum over a warp's channels for GRAD|B or GRAD|C of a step.
    __device__ __forceinline__ Numbers& sum_of_warp(int warp, bool of_c, int k, int lane) {
        if constexpr (in_place)
            return (of_c ? c : b)[warp][k][place(lane, 0)];
        else
            return sums[((warp * 2 + (of_c ? 1 : 0)) * joined + k) * Shape::lanes + lane];
    }
};

}  // namespace flashscan::cuda
