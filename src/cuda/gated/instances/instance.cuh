// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one dtype of data with the kernels of gated layers.
#pragma once

#include <utility>

#include "cuda/gated/backward.cuh"
#include "cuda/gated/edges.cuh"
#include "cuda/gated/forward.cuh"
#include "cuda/gated/instances/table.h"

namespace flashscan::cuda {

struct GatedTileSizes {
    int channels, steps;  // of a lane
    int blocks;           // per multiprocessor
};
// They were measured (bench/results/tried_layers.md).
template <typename X>
constexpr GatedTileSizes gated_tile_sizes(bool by_time, bool backward) {
    if (sizeof(X) == 2)
        return !backward ? GatedTileSizes{2, 8, 4} : by_time ? GatedTileSizes{1, 8, 4} : GatedTileSizes{2, 8, 2};
    if (sizeof(X) == 4)
        return backward ? GatedTileSizes{1, 8, 3} : by_time ? GatedTileSizes{1, 8, 4} : GatedTileSizes{1, 16, 3};
    return {1, 4, 1};
}
template <typename X, bool ByTime, bool Backward>
using GatedShapeOf =
    GatedShape<X, ByTime, Backward, gated_tile_sizes<X>(ByTime, Backward).channels,
               gated_tile_sizes<X>(ByTime, Backward).steps, gated_tile_sizes<X>(ByTime, Backward).blocks>;

template <typename Shape, typename Parts, bool Plain, bool FewRows = false>
const void* gated_kernel_of() {
    if constexpr (Shape::backward)
        return reinterpret_cast<const void*>(&gated_backward<Shape, Parts, Plain, FewRows>);
    else
        return reinterpret_cast<const void*>(&gated_forward<Shape, Parts, Plain, FewRows>);
}

template <typename Shape, bool FewRows>
GatedPlainKernels make_plain_kernels() {
    GatedPlainKernels plain;
    [&]<int... layers>(std::integer_sequence<int, layers...>) {
        ((plain.named[layers] = gated_kernel_of<Shape, NamedParts<layers>, true, FewRows>()), ...);
    }
    (std::make_integer_sequence<int, gated_layer_count>());
    plain.any = gated_kernel_of<Shape, AnyParts, true, FewRows>();
    return plain;
}

template <typename Shape>
GatedPass make_gated_pass() {
    using Tile = GatedTile<Shape, true>;
    GatedPass pass;
    // f64 has the general kernel alone, which takes up to twice as long: what people run is f32 or 16 bits.
    if constexpr (sizeof(typename Shape::R) == 4) pass.plain = make_plain_kernels<Shape, false>();
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
    GatedKernels kernels;
    kernels.forward[0] = make_gated_pass<GatedShapeOf<X, false, false>>();
    kernels.forward[1] = make_gated_pass<GatedShapeOf<X, true, false>>();
    kernels.backward[0] = make_gated_pass<GatedShapeOf<X, false, true>>();
    kernels.backward[1] = make_gated_pass<GatedShapeOf<X, true, true>>();
    kernels.pass_states = reinterpret_cast<const void*>(&gated_pass_states<R>);
    kernels.sums = reinterpret_cast<const void*>(&gated_sums<X>);
    return kernels;
}

// Adds the kernels of few rows, which are compiled apart because they have no PTX.
template <typename X>
GatedKernels with_few_rows(GatedKernels kernels) {
    kernels.forward[0].few_rows = make_plain_kernels<GatedShapeOf<X, false, false>, true>();
    kernels.forward[1].few_rows = make_plain_kernels<GatedShapeOf<X, true, false>, true>();
    kernels.backward[0].few_rows = make_plain_kernels<GatedShapeOf<X, false, true>, true>();
    kernels.backward[1].few_rows = make_plain_kernels<GatedShapeOf<X, true, true>, true>();
    return kernels;
}

}  // namespace flashscan::cuda
