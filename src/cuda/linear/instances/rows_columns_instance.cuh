// SPDX-License-Identifier: Apache-2.0
// Returns the table's entry for one pair of data and gate dtype with the kernels "rows" and "columns". They are
// compiled apart from "chunked", which can take their place, because they have no PTX.
#pragma once

#include "cuda/linear/columns_channels_innermost.cuh"
#include "cuda/linear/instances/table.h"
#include "cuda/linear/rows_time_innermost.cuh"

namespace flashscan::cuda {

template <typename Ty, bool Backward>
void fill_rows(LinearKernels& k) {
    if constexpr (sizeof(typename Ty::X) == sizeof(typename Ty::G)) {
        k.rows[0][Backward] = reinterpret_cast<const void*>(&linear_rows<Ty, false, Backward>);
        k.rows[1][Backward] = reinterpret_cast<const void*>(&linear_rows<Ty, true, Backward>);
        using Work = LinearRowsWork<Ty, false, Backward>;
        constexpr int warps = RowsConfig<Ty, Backward>::warps;
        k.rows_tile[Backward] = {Work::Shape::V, Work::Shape::L, warps, warps * Work::buffer_bytes};
        k.rows_skew = RowsConfig<Ty, Backward>::Shape::skew;
    }
}

template <typename Ty, bool Backward>
void fill_columns(LinearKernels& k) {
    const auto fill = [&]<int pack>() {
        using Config = ColumnsConfig<Ty, pack, Backward>;
        constexpr int n = pack - 1;
        k.columns[n][Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, pack, false, Backward>);
        k.columns_tile[n][Backward] = {Config::Shape::V, Config::Shape::L, chained_warps, 0};
    };
    if constexpr (sizeof(typename Ty::X) >= 4) fill.template operator()<1>();
    if constexpr (sizeof(typename Ty::X) <= 4) fill.template operator()<2>();
    // For wider elements "chunked" is as fast as skewed columns.
    if constexpr (sizeof(typename Ty::X) == 2)
        k.skewed_columns[Backward] = reinterpret_cast<const void*>(&linear_columns<Ty, 2, true, Backward>);
}

template <typename X, typename G>
LinearKernels with_rows_and_columns(LinearKernels k) {
    using Ty = Types<X, G>;
    fill_rows<Ty, false>(k);
    fill_rows<Ty, true>(k);
    fill_columns<Ty, false>(k);
    fill_columns<Ty, true>(k);
    return k;
}

}  // namespace flashscan::cuda
