// SPDX-License-Identifier: Apache-2.0
// Fills the table's chained scans of numbers for one dtype. They are compiled apart from the kernels of
// numbers_general.cuh, which can take their place, because they have no PTX.
#pragma once

#include <vector>

#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained.cuh"

namespace flashscan::cuda {

template <typename X, typename Operator>
ChainedNumberKernels chained_kernels(Dtype dtype, int kind) {
    using Wide = typename Element<X>::Wide;
    using Rows = NumberRowsWork<X, Operator, false>;
    using Columns = NumberColumnsWork<X, Operator>;
    ChainedNumberKernels k{dtype, kind, {}};
    k.of[1] = {{reinterpret_cast<const void*>(&number_rows<X, Operator, false>),
                reinterpret_cast<const void*>(&number_rows<X, Operator, true>)},
               1,
               Rows::L,
               Rows::buffer_bytes,
               static_cast<int>(sizeof(Words<Wide>)),
               Rows::Shape::skew};
    k.of[0] = {{reinterpret_cast<const void*>(&number_columns<X, Operator>)},
               Columns::V,
               Columns::L,
               0,
               static_cast<int>(sizeof(Words<typename ChainedColumns<Columns>::Carries>)),
               0};
    return k;
}

template <typename X>
void add_chained_kernels(std::vector<ChainedNumberKernels>& table, Dtype dtype) {
    combine::for_each_operator<typename Element<X>::Wide>([&](auto op) {
        using Operator = decltype(op);
        // Complex products by an identity are not exact: (1 + 0i) inf is NaN.
        if constexpr (NumberPart<X>::count == 1 || std::is_same_v<Operator, combine::Add>)
            table.push_back(chained_kernels<X, Operator>(dtype, combine::RowOf<Operator>::number));
    });
}

}  // namespace flashscan::cuda
