// SPDX-License-Identifier: Apache-2.0
// Sizes of the chunks of small_scan.cuh. It compiles as C++ and as CUDA C++.
#pragma once

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int matrix_scan_warps = 8;
inline constexpr int matrix_scan_group = 16;  // chunks of a group, and the most groups of a chain

// Numbers from one row to the next in shared memory; neighbouring rows lie in different banks.
FLASHSCAN_HD constexpr int matrix_scan_stride(int dim) { return dim + 4; }

// Shared memory of a block whose warps have `steps` steps each.
constexpr int matrix_scan_shared_bytes(int dim, int64_t steps) {
    const int64_t slots = matrix_scan_warps * (steps + 3) + 2;
    return static_cast<int>(slots * dim * matrix_scan_stride(dim) * 4);
}

// How many numbers blocks exchange: the products of all chunks and groups.
constexpr int64_t matrix_scan_words(int dim, int64_t chains, int64_t chunks) {
    return chains * (chunks + (chunks + matrix_scan_group - 1) / matrix_scan_group) * dim * dim;
}

}  // namespace flashscan::cuda
