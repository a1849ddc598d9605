// SPDX-License-Identifier: Apache-2.0
// The kernels of gated layers for one type of data.
#pragma once

#include "cuda/gated/backward.cuh"
#include "cuda/gated/edges.cuh"
#include "cuda/gated/forward.cuh"
#include "cuda/gated/instances/table.h"
#include "cuda/gated/steps.cuh"

namespace flashscan::cuda {

template <typename Shape>
GatedPass make_gated_pass() {
    GatedPass pass;
    if constexpr (Shape::backward)
        pass.kernel = reinterpret_cast<const void*>(&gated_backward<Shape>);
    else
        pass.kernel = reinterpret_cast<const void*>(&gated_forward<Shape>);
    pass.threads = Shape::threads;
    pass.steps = Shape::steps;
    pass.channels = Shape::channels;
    return pass;
}

template <typename X>
GatedKernels make_gated_kernels() {
    using R = typename Element<X>::Wide;
    constexpr int turns = 32 / sizeof(R);
    GatedKernels kernels;
    kernels.forward[0] = make_gated_pass<GatedShape<X, turns, false, false>>();
    kernels.forward[1] = make_gated_pass<GatedShape<X, turns, true, false>>();
    kernels.backward[0] = make_gated_pass<GatedShape<X, turns, false, true>>();
    kernels.backward[1] = make_gated_pass<GatedShape<X, turns, true, true>>();
    kernels.steps = reinterpret_cast<const void*>(&gated_steps<X>);
    kernels.pass_states = reinterpret_cast<const void*>(&gated_pass_states<R>);
    kernels.sums = reinterpret_cast<const void*>(&gated_sums<X>);
    return kernels;
}

}  // namespace flashscan::cuda
