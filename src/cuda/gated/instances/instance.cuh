// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one dtype of data with the kernels of gated layers.
#pragma once

#include <utility>

#include "cuda/gated/backward.cuh"
#include "cuda/gated/edges.cuh"
#include "cuda/gated/forward.cuh"
#include "cuda/gated/instances/table.h"

namespace flashscan::cuda {

template <typename Shape, typename Parts, bool Plain, bool FewRows = false>
const void* gated_kernel_of() {
    if constexpr (Shape::backward)
        return reinterpret_cast<const void*>(&gated_backward<Shape, Parts, Plain, FewRows>);
    else
        return reinterpret_cast<const void*>(&gated_forward<Shape, Parts, Plain, FewRows>);
}

template <typename Shape, bool FewRows, int... layers>
GatedPlainKernels make_plain_kernels(std::integer_sequence<int, layers...>) {
    GatedPlainKernels plain;
    ((plain.named[layers] = gated_kernel_of<Shape, NamedParts<layers>, true, FewRows>()), ...);
    plain.any = gated_kernel_of<Shape, AnyParts, true, FewRows>();
    return plain;
}

template <typename Shape, typename Layers>
GatedPass make_gated_pass(Layers layers) {
    using Tile = GatedTile<Shape, true>;
    GatedPass pass;
    // f64 has the general kernel alone, which takes up to twice as long: what people run is f32 or 16 bits.
    if constexpr (sizeof(typename Shape::R) == 4) {
        pass.plain[0] = make_plain_kernels<Shape, false>(layers);
        pass.plain[1] = make_plain_kernels<Shape, true>(layers);
    }
    pass.general = gated_kernel_of<Shape, AnyParts, false>();
    pass.threads = Shape::threads;
    pass.warps = Shape::warps;
    pass.warp_steps = Shape::warp_steps;
    pass.warp_channels = Shape::warp_channels;
    pass.lane_steps = Shape::L;
    pass.lane_channels = Shape::V;
    pass.vector_bytes = 4 * Tile::vector_words;
    return pass;
}

template <typename X>
GatedKernels make_gated_kernels() {
    using R = typename Element<X>::Wide;
    constexpr auto layers = std::make_integer_sequence<int, gated_layer_count>();
    GatedKernels kernels;
    // The last three numbers are channels of a lane, steps of a lane and blocks per multiprocessor
    // (bench/results/tried_layers.md).
    if constexpr (sizeof(X) == 2) {
        kernels.forward[0] = make_gated_pass<GatedShape<X, false, false, 2, 8, 4>>(layers);
        kernels.forward[1] = make_gated_pass<GatedShape<X, true, false, 2, 8, 4>>(layers);
        kernels.backward[0] = make_gated_pass<GatedShape<X, false, true, 2, 8, 2>>(layers);
        kernels.backward[1] = make_gated_pass<GatedShape<X, true, true, 1, 8, 4>>(layers);
    } else if constexpr (sizeof(X) == 4) {
        kernels.forward[0] = make_gated_pass<GatedShape<X, false, false, 1, 16, 3>>(layers);
        kernels.forward[1] = make_gated_pass<GatedShape<X, true, false, 1, 8, 4>>(layers);
        kernels.backward[0] = make_gated_pass<GatedShape<X, false, true, 1, 8, 3>>(layers);
        kernels.backward[1] = make_gated_pass<GatedShape<X, true, true, 1, 8, 3>>(layers);
    } else {
        kernels.forward[0] = make_gated_pass<GatedShape<X, false, false, 1, 4, 1>>(layers);
        kernels.forward[1] = make_gated_pass<GatedShape<X, true, false, 1, 4, 1>>(layers);
        kernels.backward[0] = make_gated_pass<GatedShape<X, false, true, 1, 4, 1>>(layers);
        kernels.backward[1] = make_gated_pass<GatedShape<X, true, true, 1, 4, 1>>(layers);
    }
    kernels.pass_states = reinterpret_cast<const void*>(&gated_pass_states<R>);
    kernels.sums = reinterpret_cast<const void*>(&gated_sums<X>);
    return kernels;
}

}  // namespace flashscan::cuda
