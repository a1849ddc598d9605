// SPDX-License-Identifier: Apache-2.0
// How chunks of scan.cuh are made up: sizes alone. Compiles as C++ and as CUDA C++.
#pragma once

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int matrix_scan_warps = 8;
inline constexpr int matrix_scan_group = 16;  // chunks of a group; a chain has at most as many groups

// Numbers from row to row in shared memory, so that rows side by side lie in different banks.
FLASHSCAN_HD constexpr int matrix_scan_stride(int dim) { return dim + 4; }

// Of a block whose warps have `steps` steps each.
constexpr int matrix_scan_shared_bytes(int dim, int64_t steps) {
    const int64_t slots = matrix_scan_warps * (steps + 3) + 2;
    return static_cast<int>(slots * dim * matrix_scan_stride(dim) * 4);
}

// Numbers that blocks hand each other.
constexpr int64_t matrix_scan_words(int dim, int64_t chains, int64_t chunks) {
    return chains * (chunks + (chunks + matrix_scan_group - 1) / matrix_scan_group) * dim * dim;
}

}  // namespace flashscan::cuda
