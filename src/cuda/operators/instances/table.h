// SPDX-License-Identifier: Apache-2.0
// The closed table of compiled kernels of associative operators on elements in registers.
#pragma once

#include "core/types.h"
#include "cuda/operators/tuning.h"

namespace flashscan::cuda {

// Chained scans of many rows of numbers (numbers_chained.cuh and what includes it), of one layout.
struct ChainedKernels {
    // [down], with NumberChainParams or NumberGradientParams and ChainedSets; down with time innermost alone.
    const void* kernel[2] = {};
    int lane_rows = 0, steps = 0;
    int warp_bytes = 0;    // shared memory of a warp
    int carry_bytes = 0;   // bytes of the carries of a lane as they are published
    int record_bytes = 0;  // of the summaries of a lane, which groups of chunks publish
    int skew = 0;  // time innermost: the most steps between the start of a row's first 16-byte vector and the row
};

// Those of an operator, by [time innermost].
struct ChainedNumberKernels {
    Dtype dtype{};
    int kind = 0;  // the OperatorKind
    ChainedKernels scan[2];
    ChainedKernels indexed[2];              // with INDEX, of operators that have it
    ChainedKernels marks[2], gradients[2];  // none where all slopes are 1
};

// Scans of short rows of numbers (numbers_short_rows.cuh), of one operator.
struct ShortNumberKernels {
    static constexpr int tiles[] = {2, 4, 8};  // of a row
    static constexpr int shared_tiles = 4;     // of a row that shares vectors with its neighbours
    Dtype dtype{};
    int kind = 0;                  // the OperatorKind
    int steps = 0;                 // of a lane in a tile
    const void* kernel[3] = {};    // by `tiles`, with ShortNumberParams; null where longer rows have other kernels
    const void* shared = nullptr;  // the kernel for rows that share vectors
};

struct ElementKernels {
    Dtype dtype{};
    int dim = 0;           // rows of matrices; 0 for numbers
    int kind = 0;          // the OperatorKind
    bool indexed = false;  // whether elements are numbers with the steps that they come from, forward alone
    ElementFacts forward;  // forward.channels numbers of neighbouring channels are one element
    ElementFacts backward;
    // The kernels, with the arguments that they take.
    const void* scan = nullptr;       // ElementScanParams; of affine maps TinyAffineParams
    const void* empty = nullptr;      // EmptyElementParams; null for affine maps, whose states ADD's kernel copies
    const void* gradients = nullptr;  // NumbersBackwardParams, TinyBackwardParams, TinyAffineParams; null for integers
    const void* empty_gradients = nullptr;  // EmptyGradientParams; null for integers and affine maps
    const void* operator_state = nullptr;   // state of a custom operator
};

inline constexpr int largest_tiny_dim = 4;
// The most bytes in memory of a matrix that fits the registers of a thread.
inline constexpr int64_t largest_tiny_bytes = 128;

// The kernels of numbers, of which `channels` are one element, and of products of matrices or affine maps; null where
// there are none.
const ElementKernels* number_kernels(Dtype dtype, OperatorKind kind, int channels);
// The chained scans of numbers; null for complex products.
const ChainedNumberKernels* chained_number_kernels(Dtype dtype, OperatorKind kind);
// The scans of short rows of numbers; null for complex numbers.
const ShortNumberKernels* short_number_kernels(Dtype dtype, OperatorKind kind);
const ElementKernels* tiny_kernels(Dtype dtype, OperatorKind kind, int64_t dim);
// The kernels of numbers with INDEX; null where there are none.
const ElementKernels* indexed_kernels(Dtype dtype, OperatorKind kind);

}  // namespace flashscan::cuda
