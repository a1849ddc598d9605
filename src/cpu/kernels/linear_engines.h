// SPDX-License-Identifier: Apache-2.0
// Linear recurrence: the table of its kernels. Compiled once for each instruction set, by linear_<name>.cpp.
#pragma once

#include "cpu/kernels/linear_columns.h"
#include "cpu/kernels/linear_rows.h"
#include "cpu/kernels/linear_walk.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
LinearKernels kernels_of(const LinearVariant& variant) {
    if (variant.along_time)
        return variant.complex_data ? Entry<T, true, Rows<T, true>>::table() : Entry<T, false, Rows<T, false>>::table();
    if (variant.complex_gate) return Entry<T, true, Columns<T, true>>::table();
    return Entry<T, false, Columns<T, false>>::table();
}

LinearKernels linear_kernels(const LinearVariant& variant) {
    return variant.wide ? kernels_of<double>(variant) : kernels_of<float>(variant);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
