// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one pair of data and gate dtype with the kernels of that pair.
#pragma once

#include "cuda/linear/chunked_general.cuh"
#include "cuda/linear/columns_channels_innermost.cuh"
#include "cuda/linear/instances/table.h"
#include "cuda/linear/rows_time_innermost.cuh"

namespace flashscan::cuda {

template <typename Config, int Warps>
constexpr TileFacts facts_of() {
    return {Config::Shape::V, Config::Shape::L, Warps, Config::buffers, Config::Sum::shared_bytes};
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
        k.chunked[n][1][Backward] = reinterpret_cast<const void*>(&linear_chunked<Ty, compiled, true, Backward>);
        k.chunked_tile[n][Backward] = facts_of<Config, Config::warps>();
    };
    fill.template operator()<Access::channels>();
    fill.template operator()<Access::channel_packs>();
    fill.template operator()<Access::time>();
}

template <typename Ty, bool Backward>
void fill_rows(LinearKernels& k) {
    if constexpr (sizeof(typename Ty::X) == sizeof(typename Ty::G)) {
        k.rows[0][Backward] = reinterpret_cast<const void*>(&linear_rows<Ty, false, Backward>);
        k.rows[1][Backward] = reinterpret_cast<const void*>(&linear_rows<Ty, true, Backward>);
        using Work = LinearRowsWork<Ty, false, Backward>;
        k.rows_tile[Backward] = {Work::Shape::V, Work::Shape::L, chained_warps, chained_warps * Work::buffer_bytes, 0};
        k.rows_skew = RowsConfig<Ty, Backward>::Shape::skew;
    }
}

template <typename Ty, bool Backward>
void fill_columns(LinearKernels& k) {
    const auto fill = [&]<int pack>() {
        using Config = ColumnsConfig<Ty, pack, Backward>;
        constexpr int n = pack - 1;
        k.columns[n][0][Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, pack, false, false, Backward>);
        k.columns[n][1][Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, pack, false, true, Backward>);
        k.columns_tile[n][Backward] = {Config::Shape::V, Config::Shape::L, chained_warps, 0, 0};
    };
    if constexpr (sizeof(typename Ty::X) >= 4) fill.template operator()<1>();
    if constexpr (sizeof(typename Ty::X) <= 4) fill.template operator()<2>();
    // For wider elements "chunked" is as fast as skewed columns.
    if constexpr (sizeof(typename Ty::X) == 2) {
        k.skewed_columns[0][Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, 2, true, false, Backward>);
        k.skewed_columns[1][Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, 2, true, true, Backward>);
    }
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
    fill_rows<Ty, false>(k);
    fill_rows<Ty, true>(k);
    fill_columns<Ty, false>(k);
    fill_columns<Ty, true>(k);
    k.reduce_gate_gradient = reinterpret_cast<const void*>(&reduce_gate_gradient<G>);
    k.pass_empty_sequences = reinterpret_cast<const void*>(&pass_empty_sequences<typename Ty::Wide>);
    return k;
}

}  // namespace flashscan::cuda
