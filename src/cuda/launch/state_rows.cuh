// SPDX-License-Identifier: Apache-2.0
// The kernels that copy rows of states between a pool and dense memory, and that write zeros for rows of padding.
#pragma once

#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/step_rows.cuh"
#include "cuda/launch/state_rows_kernels.h"

namespace flashscan::cuda {

// Copies rows; a thread copies one word.
template <typename Word>
__global__ void __launch_bounds__(state_row_threads) copy_state_rows(const __grid_constant__ StateRowCopy p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t place = i / p.words, word = i - place * p.words;
    if (place >= p.count) return;
    const int64_t to = indexed_row(p.to_indices, place, p.pool_rows);
    const int64_t from = indexed_row(p.from_indices, place, p.pool_rows);
    if (to < 0) return;
    Word value{};
    if (from >= 0) value = reinterpret_cast<const Word*>(static_cast<const char*>(p.from) + from * p.from_step)[word];
    reinterpret_cast<Word*>(static_cast<char*>(p.to) + to * p.to_step)[word] = value;
}

// Clears the rows whose index is padding; clear_blocks blocks have a row.
__global__ void __launch_bounds__(state_row_threads) clear_state_rows(const __grid_constant__ StateRowClear p) {
    const int64_t row = blockIdx.x / clear_blocks;
    if (indexed_row(p.indices, row, p.pool_rows) >= 0) return;
    int64_t begin = row, length = 1, count = 1;
    if (p.offsets.data != nullptr) {
        begin = load_offset(p.offsets, row);
        length = max(load_offset(p.offsets, row + 1) - begin, int64_t{0});
    }
    for (int axis = 0; axis < p.axes; ++axis) count *= axis == p.row_axis ? length : p.extents[axis];
    const int64_t first = static_cast<int64_t>(blockIdx.x % clear_blocks) * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < count; i += int64_t{clear_blocks} * blockDim.x) {
        int64_t rest = i, at = begin * p.strides[p.row_axis];
        for (int axis = p.axes - 1; axis >= 0; --axis) {
            const int64_t extent = axis == p.row_axis ? length : p.extents[axis], next = rest / extent;
            at += (rest - next * extent) * p.strides[axis];
            rest = next;
        }
        for (int32_t byte = 0; byte < p.bytes; byte += 2) *reinterpret_cast<uint16_t*>(p.data + at + byte) = 0;
    }
}

}  // namespace flashscan::cuda
