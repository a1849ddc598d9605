// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels for chains of matrices, by the type of number that is computed with.
#pragma once

#include <span>

#include "core/types.h"
#include "cuda/matrix/params.h"

namespace flashscan::cuda {

// A kernel, what a block of it needs, which walks it takes and how long it takes.
struct MatrixKernel {
    const void* function = nullptr;
    const void* plain = nullptr;  // a variant for f32 without u, with everything aligned to 16 bytes; or null
    int threads = 0, shared_bytes = 0;
    int rows = 0, dim = 0;  // rows of r of a block, and the largest dim
    bool on_tensor_cores = false;
    bool by_warpgroups = false;  // whether it needs compute capability 9.0 exactly
    bool plain_only = false;     // whether it takes only walks like those of `plain`, though with any alignment
    bool is_tree = false;        // whether it is prefix_tree.cuh, not a walk
    bool is_scan = false;        // whether it is small_scan.cuh; shared_bytes is then that with one step for each warp
    double drift = 0;            // the average loss of a sum by rounding towards zero, in units of 2^-24 of the sum
    // On an H200. Walks: microseconds of a step of a block that has a multiprocessor to itself, with matrices of `dim`;
    // and multiply-adds of a full multiprocessor in a clock. For a tree `step` is the time of a level without its
    // products, for a scan that of a product.
    double step = 0, rate = 0;
};

struct MatrixKernels {
    std::span<const MatrixKernel> walks;
    const void* gradient = nullptr;  // MATMUL's, launched with a block of 256 threads for each tile of 64 x 64
    const void* affine_gradient = nullptr;
};

// `numbers` is the dtype that is computed with, a state_dtype.
const MatrixKernels& matrix_kernels(Dtype numbers);

inline constexpr int matrix_gradient_block = 256, matrix_gradient_block_tile = 64;

}  // namespace flashscan::cuda
