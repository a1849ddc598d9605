// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled kernels of associative operators on elements in registers.
#pragma once

#include "core/types.h"
#include "cuda/operators/tuning.h"

namespace flashscan::cuda {

struct ElementKernels {
    Dtype dtype{};
    int dim = 0;           // of matrices; 0: numbers
    int kind = 0;          // OperatorKind of numbers
    ElementFacts forward;  // facts.channels numbers of neighbouring channels are one element
    ElementFacts backward;
    const void* scan = nullptr;             // (ElementScanParams)
    const void* empty = nullptr;            // (EmptyElementParams)
    const void* gradients = nullptr;        // (NumbersBackwardParams) or (TinyBackwardParams); null for integers
    const void* empty_gradients = nullptr;  // (EmptyGradientParams); the same
    const void* operator_state = nullptr;   // of a custom operator
};

inline constexpr int largest_tiny_dim = 4;
// Of an element in memory, of matrices that fit the registers of a thread.
inline constexpr int64_t largest_tiny_bytes = 128;

// Null where there are none. Of numbers, `channels` a element; of matrices.
const ElementKernels* number_kernels(Dtype dtype, OperatorKind kind, int channels);
const ElementKernels* tiny_kernels(Dtype dtype, int64_t dim);

}  // namespace flashscan::cuda
