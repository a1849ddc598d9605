// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one type of data and one of states with the kernels of selective scans.
#pragma once

#include "cuda/selective/backward.cuh"
#include "cuda/selective/carries.cuh"
#include "cuda/selective/forward.cuh"
#include "cuda/selective/instances/table.h"
#include "cuda/selective/sums.cuh"

namespace flashscan::cuda {

template <typename Shape>
SelectivePasses make_selective_passes() {
    SelectivePasses passes;
    passes.most_states = Shape::padded;
    passes.states_of_lane = Shape::states;
    passes.channels = Shape::channels;
    passes.threads = Shape::threads;
    passes.kept = Shape::kept_steps;
    passes.forward = reinterpret_cast<const void*>(&selective_forward<Shape, SelectiveWalk::output>);
    passes.states = reinterpret_cast<const void*>(&selective_forward<Shape, SelectiveWalk::states>);
    passes.adjoint = reinterpret_cast<const void*>(&selective_forward<Shape, SelectiveWalk::adjoint>);
    passes.backward = reinterpret_cast<const void*>(&selective_backward<Shape>);
    passes.forward_bytes = sizeof(SelectiveForwardTile<Shape>);
    passes.backward_bytes = sizeof(SelectiveBackwardTile<Shape>);
    return passes;
}

// The kernels of few states are compiled for f32 arithmetic alone; in f64 those of more states take their place.
template <typename X, typename V, bool ByTime>
std::vector<SelectivePasses> make_selective_layout() {
    constexpr bool real = std::is_same_v<V, typename Element<X>::Wide>, wide = sizeof(typename Element<X>::Wide) == 8;
    std::vector<SelectivePasses> passes;
    if constexpr (real && !wide) passes.push_back(make_selective_passes<SelectiveShape<X, V, 4, 4, ByTime>>());
    if constexpr (!real && !wide) passes.push_back(make_selective_passes<SelectiveShape<X, V, 8, 2, ByTime>>());
    if constexpr (real) passes.push_back(make_selective_passes<SelectiveShape<X, V, 16, 4, ByTime>>());
    passes.push_back(make_selective_passes<SelectiveShape<X, V, 32, 8, ByTime>>());
    return passes;
}

template <typename X, typename V>
SelectiveKernels make_selective_kernels() {
    using R = typename Element<X>::Wide;
    using Step = std::conditional_t<std::is_same_v<V, R>, X, V>;
    SelectiveKernels kernels;
    kernels.passes[0] = make_selective_layout<X, V, false>();
    kernels.passes[1] = make_selective_layout<X, V, true>();
    kernels.carries = reinterpret_cast<const void*>(&selective_carries<V, R>);
    kernels.sums = reinterpret_cast<const void*>(&selective_sums<Step, V>);
    kernels.param_sums = reinterpret_cast<const void*>(&selective_sums<R, R>);
    return kernels;
}

}  // namespace flashscan::cuda
