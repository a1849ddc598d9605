// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one dtype with the kernels linear_waves and linear_strip_waves.
#pragma once

#include "cuda/linear/few_long_rows/channels_innermost.cuh"
#include "cuda/linear/few_long_rows/time_innermost.cuh"
#include "cuda/linear/instances/few_long_rows_table.h"

namespace flashscan::cuda {

template <typename X, bool Backward>
void fill_rows(WaveKernels& k) {
    using Config = WaveConfig<X, Backward>;
    k.kernel[1][0][Backward] = reinterpret_cast<const void*>(&linear_waves<X, false, Backward>);
    k.kernel[1][1][Backward] = reinterpret_cast<const void*>(&linear_waves<X, true, Backward>);
    WaveFacts& facts = k.facts[1][Backward];
    facts.steps = Config::Shape::L;
    facts.warps = Config::warps;
    facts.threads = Config::threads;
    facts.stage_bytes = Config::warps * Config::stage_bytes;
    facts.ring = Backward ? 6 : 5;
    facts.slots = Config::Carries::slots;
}

template <typename X, bool Backward>
void fill_strips(WaveKernels& k) {
    using Config = StripConfig<X, Backward>;
    k.kernel[0][0][Backward] = reinterpret_cast<const void*>(&linear_strip_waves<X, false, Backward>);
    k.kernel[0][1][Backward] = reinterpret_cast<const void*>(&linear_strip_waves<X, true, Backward>);
    WaveFacts& facts = k.facts[0][Backward];
    facts.lane_rows = Config::Shape::V;
    facts.steps = Config::Shape::L;
    facts.rows = Config::rows;
    facts.warps = Config::warps;
    facts.threads = Config::threads;
    facts.stage_bytes = Config::stage_bytes;
    facts.ring = Config::ring;
    facts.slots = Config::Carries::slots;
}

template <typename X>
WaveKernels make_wave_kernels(Dtype dtype) {
    WaveKernels k{};
    k.dtype = dtype;
    fill_rows<X, false>(k);
    fill_rows<X, true>(k);
    // In f32 forward "chunked" is as fast.
    if constexpr (sizeof(X) == 2) fill_strips<X, false>(k);
    fill_strips<X, true>(k);
    return k;
}

}  // namespace flashscan::cuda
