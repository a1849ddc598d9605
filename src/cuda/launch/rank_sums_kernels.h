// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of rank_sums.cu: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "core/types.h"

namespace flashscan::cuda {

inline constexpr int rank_sum_axes = 6;

// Extents and strides are those of the axes of the tensor that is not dense, the outermost first.
struct RankSumParams {
    const void* from = nullptr;
    void* to = nullptr;
    int64_t count = 0, step = 0;  // elements; bytes from one of the dense tensors to the next
    int32_t terms = 0, axes = 0;
    int64_t extents[rank_sum_axes] = {}, strides[rank_sum_axes] = {};
};

// The kernels for data of a type; no gradient is an integer.
struct RankSumKernels {
    const void *pack = nullptr, *add_up = nullptr;
};
RankSumKernels rank_sum_kernels(Dtype dtype);

}  // namespace flashscan::cuda
