// SPDX-License-Identifier: Apache-2.0
// Fills the table's chained scans of numbers for one dtype. They are compiled apart from the kernels of
// numbers_general.cuh, which can take their place, because they have no PTX.
#pragma once

#include <vector>

#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained_backward.cuh"
#include "cuda/operators/numbers_chained_index.cuh"

namespace flashscan::cuda {

template <typename Work>
ChainedKernels rows_kernels(const void* up, const void* down) {
    return {{up, down},
            1,
            Work::L,
            Work::buffer_bytes,
            static_cast<int>(sizeof(Words<typename Work::Wide>)),
            static_cast<int>(sizeof(Words<typename Work::Monoid::Record>)),
            Work::Shape::skew};
}
template <typename Work>
ChainedKernels columns_kernels(const void* kernel) {
    return {{kernel},
            Work::V,
            Work::L,
            0,
            static_cast<int>(sizeof(Words<typename ChainedColumns<Work>::Carries>)),
            static_cast<int>(sizeof(Words<typename ChainedColumns<Work>::Records>)),
            0};
}

template <typename X, typename Operator>
ChainedNumberKernels chained_kernels(Dtype dtype, int kind) {
    ChainedNumberKernels k{dtype, kind, {}, {}, {}, {}};
    k.scan[0] =
        columns_kernels<NumberColumnsWork<X, Operator>>(reinterpret_cast<const void*>(&number_columns<X, Operator>));
    k.scan[1] = rows_kernels<NumberRowsWork<X, Operator, false>>(
        reinterpret_cast<const void*>(&number_rows<X, Operator, false>),
        reinterpret_cast<const void*>(&number_rows<X, Operator, true>));
    if constexpr (requires { Operator::chooses; }) {
        k.indexed[0] = columns_kernels<TakenColumnsWork<X, Operator>>(
            reinterpret_cast<const void*>(&number_columns_index<X, Operator>));
        k.indexed[1] = rows_kernels<TakenRowsWork<X, Operator, false>>(
            reinterpret_cast<const void*>(&number_rows_index<X, Operator, false>),
            reinterpret_cast<const void*>(&number_rows_index<X, Operator, true>));
    }
    if constexpr (combine::RowOf<Operator>::has_slopes && combine::kind_of_number<X> != integer_number) {
        k.marks[0] = columns_kernels<NumberColumnsMarks<X, Operator>>(
            reinterpret_cast<const void*>(&number_columns_marks<X, Operator>));
        k.marks[1] = rows_kernels<NumberRowsMarks<X, Operator, false>>(
            reinterpret_cast<const void*>(&number_rows_marks<X, Operator, false>),
            reinterpret_cast<const void*>(&number_rows_marks<X, Operator, true>));
        k.gradients[0] = columns_kernels<NumberColumnsGradientWork<X, Operator>>(
            reinterpret_cast<const void*>(&number_columns_backward<X, Operator>));
        k.gradients[1] = rows_kernels<NumberRowsGradientWork<X, Operator, false>>(
            reinterpret_cast<const void*>(&number_rows_backward<X, Operator, false>),
            reinterpret_cast<const void*>(&number_rows_backward<X, Operator, true>));
    }
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
