// SPDX-License-Identifier: Apache-2.0
// Fills one entry of the table.
#pragma once

#include "cuda/instances/waves.h"
#include "cuda/kernels/linear_waves.cuh"

namespace flashscan::cuda {

template <typename X, bool Backward>
void fill_waves(WaveKernels& k) {
    using Config = WaveConfig<X, Backward>;
    k.kernel[0][Backward] = reinterpret_cast<const void*>(&linear_waves<X, false, Backward>);
    k.kernel[1][Backward] = reinterpret_cast<const void*>(&linear_waves<X, true, Backward>);
    k.facts[Backward] = {Config::Shape::L, Config::warps, Config::threads, Config::stage_bytes, Config::Carries::slots};
}

template <typename X>
WaveKernels make_wave_kernels(Dtype dtype) {
    WaveKernels k{};
    k.dtype = dtype;
    fill_waves<X, false>(k);
    fill_waves<X, true>(k);
    return k;
}

}  // namespace flashscan::cuda
