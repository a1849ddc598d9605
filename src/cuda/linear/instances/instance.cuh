// SPDX-License-Identifier: Apache-2.0
// Makes the table's entry for one pair of data and gate dtype, with the kernels that take every problem.
#pragma once

#include "cuda/linear/chunked_general.cuh"
#include "cuda/linear/instances/table.h"

namespace flashscan::cuda {

template <typename Config, int Warps>
constexpr TileFacts facts_of() {
    return {Config::Shape::V, Config::Shape::L, Warps, Config::buffers};
}

template <typename Ty, bool Backward>
void fill_chunked(LinearKernels& k) {
    const auto fill = [&]<Access access>() {
        // A pack of one element is that element.
        constexpr bool one = access == Access::channel_packs && sizeof(typename Ty::X) >= 4;
        constexpr Access compiled = one ? Access::channels : access;
        using Config = ChunkedConfig<Ty, compiled, Backward>;
        constexpr int n = static_cast<int>(access);
        k.chunked[n][0][Backward] = reinterpret_cast<const void*>(&linear_chunked<Ty, compiled, false, Backward>);
        if constexpr (is_time_inner(access))
            k.chunked[n][1][Backward] = reinterpret_cast<const void*>(&linear_chunked<Ty, compiled, true, Backward>);
        k.chunked_tile[n][Backward] = facts_of<Config, Config::warps>();
    };
    fill.template operator()<Access::channels>();
    fill.template operator()<Access::channel_packs>();
    fill.template operator()<Access::time>();
}

template <typename X, typename G>
LinearKernels make_linear_kernels(Dtype dtype, Dtype gate_dtype) {
    using Ty = Types<X, G>;
    LinearKernels k{};
    k.dtype = dtype;
    k.gate_dtype = gate_dtype;
    k.record_bytes = static_cast<int>(sizeof(Words<Record<Ty>>));
    k.carry_bytes = static_cast<int>(sizeof(Words<typename Ty::Wide>));
    fill_chunked<Ty, false>(k);
    fill_chunked<Ty, true>(k);
    k.reduce_gate_gradient = reinterpret_cast<const void*>(&reduce_gate_gradient<G>);
    k.find_gate_values = reinterpret_cast<const void*>(&find_gate_values<G>);
    k.pass_empty_sequences = reinterpret_cast<const void*>(&pass_empty_sequences<typename Ty::Wide>);
    return k;
}

}  // namespace flashscan::cuda
