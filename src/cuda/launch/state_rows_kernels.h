// SPDX-License-Identifier: Apache-2.0
// The addresses of the kernels of state_rows.cuh, and their arguments: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

struct StateRowCopy {
    void* to = nullptr;
    const void* from = nullptr;
    int64_t to_step = 0, from_step = 0;  // bytes from one row to the next
    int64_t words = 0, count = 0;        // words of a row, and rows
    const int32_t *to_indices = nullptr, *from_indices = nullptr;
    int64_t pool_rows = 0;
};

struct StateRowClear {
    static constexpr int most_axes = 6;
    char* data = nullptr;
    int64_t extents[most_axes] = {}, strides[most_axes] = {};  // strides in bytes
    int32_t axes = 0, row_axis = 0, bytes = 0;                 // `bytes` is the size of an element
    int64_t rows = 0, pool_rows = 0;
    const int32_t* indices = nullptr;
    SequenceOffsets offsets;  // if given, row_axis is time, and a row is the steps of a sequence
};

struct StateRowKernels {
    const void *copy_wide = nullptr, *copy_narrow = nullptr;  // they copy words of 16 and of 4 bytes
    const void* clear = nullptr;                              // launched with clear_blocks blocks for each row
};
inline constexpr int state_row_threads = 256, clear_blocks = 32;

StateRowKernels state_row_kernels();

}  // namespace flashscan::cuda
