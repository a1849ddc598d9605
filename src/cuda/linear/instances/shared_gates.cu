// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" whose blocks sum the gradients of gates that their warps share, for all
// types.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/linear/columns_channels_innermost.cuh"
#include "cuda/linear/instances/shared_gates_table.h"
#include "cuda/linear/rows_time_innermost.cuh"

namespace flashscan::cuda {
namespace {

template <typename X, typename G>
SharedGatesKernels kernels_of() {
    using Ty = Types<X, G>;
    SharedGatesKernels k{};
    if constexpr (sizeof(X) == sizeof(G)) {
        using Work = LinearRowsWork<Ty, false, true, true>;
        k.rows[0] = reinterpret_cast<const void*>(&linear_rows<Ty, false, true, true>);
        k.rows[1] = reinterpret_cast<const void*>(&linear_rows<Ty, true, true, true>);
        k.rows_bytes = Work::buffer_bytes + Work::OfShared::warp_bytes;
    }
    const auto fill = [&]<int pack>() {
        k.columns[pack - 1] = reinterpret_cast<const void*>(&linear_columns<Ty, pack, false, true, true>);
        k.columns_bytes[pack - 1] = LinearColumnsWork<Ty, pack, false, true, true>::OfShared::warp_bytes;
    };
    if constexpr (sizeof(X) >= 4) fill.template operator()<1>();
    if constexpr (sizeof(X) <= 4) fill.template operator()<2>();
    return k;
}

}  // namespace

SharedGatesKernels shared_gates_kernels(Dtype dtype, Dtype gate_dtype) {
    return NumberTypes::visit_pair(dtype, gate_dtype, [&]<typename X, typename G>() { return kernels_of<X, G>(); });
}

}  // namespace flashscan::cuda
