// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one dtype with the kernels linear_few_long_rows_time and linear_few_long_rows_channels.
#pragma once

#include "cuda/linear/few_long_rows/channels_innermost.cuh"
#include "cuda/linear/few_long_rows/time_innermost.cuh"
#include "cuda/linear/instances/few_long_rows_table.h"

namespace flashscan::cuda {

template <typename X, bool Backward>
void fill_rows(FewLongRowsKernels& k) {
    using Config = RowConfig<X, Backward>;
    k.kernel[1][0][Backward] = reinterpret_cast<const void*>(&linear_few_long_rows_time<X, false, Backward>);
    k.kernel[1][1][Backward] = reinterpret_cast<const void*>(&linear_few_long_rows_time<X, true, Backward>);
    FewLongRowsFacts& facts = k.facts[1][Backward];
    facts.tile = {1, Config::Shape::L, 1, Config::warps, Backward ? 6 : 5};
    facts.threads = Config::threads;
    facts.stage_bytes = Config::warps * Config::stage_bytes;
    facts.slots = Config::Carries::slots;
}

template <typename X, bool Backward>
void fill_strips(FewLongRowsKernels& k) {
    using Config = StripConfig<X, Backward>;
    k.kernel[0][0][Backward] = reinterpret_cast<const void*>(&linear_few_long_rows_channels<X, false, Backward>);
    k.kernel[0][1][Backward] = reinterpret_cast<const void*>(&linear_few_long_rows_channels<X, true, Backward>);
    FewLongRowsFacts& facts = k.facts[0][Backward];
    facts.tile = {Config::Shape::V, Config::Shape::L, Config::rows, Config::warps, Config::ring};
    facts.threads = Config::threads;
    facts.stage_bytes = Config::stage_bytes;
    facts.slots = Config::Carries::slots;
}

template <typename X>
FewLongRowsKernels make_few_long_rows_kernels(Dtype dtype) {
    FewLongRowsKernels k{};
    k.dtype = dtype;
    fill_rows<X, false>(k);
    fill_rows<X, true>(k);
    // In f32 forward "chunked" is as fast.
    if constexpr (sizeof(X) == 2) fill_strips<X, false>(k);
    fill_strips<X, true>(k);
    return k;
}

}  // namespace flashscan::cuda
