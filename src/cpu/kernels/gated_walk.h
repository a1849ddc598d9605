// SPDX-License-Identifier: Apache-2.0
// Gated layers: the table of their kernels. Compiled once for each instruction set, by gated_<name>.cpp.
#pragma once

#include "cpu/kernels/gated_engines.h"
#include "cpu/kernels/linear_walk.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
LinearKernels gated_kernels_of(const LinearVariant& variant) {
    return variant.along_time ? Entry<T, false, GatedRows<T>>::table() : Entry<T, false, GatedColumns<T>>::table();
}

LinearKernels gated_kernels(const LinearVariant& variant) {
    return variant.wide ? gated_kernels_of<double>(variant) : gated_kernels_of<float>(variant);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
