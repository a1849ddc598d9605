// SPDX-License-Identifier: Apache-2.0
// The kernels for chains of matrices that are compiled: by the numbers they are computed with.
#pragma once

#include <span>

#include "core/types.h"
#include "cuda/matrix/params.h"

namespace flashscan::cuda {

// A walk: what a block of it needs and takes.
struct MatrixKernel {
    const void* function = nullptr;
    const void* plain = nullptr;  // for f32 with nothing added, everything aligned to 16 bytes
    int threads = 0, shared_bytes = 0;
    int rows = 0, dim = 0;  // the most
    bool on_tensor_cores = false;
    bool by_warpgroups = false;  // on compute capability 9.0 alone
    bool plain_only = false;     // takes what `plain` takes, wherever it lies
    bool is_tree = false;        // all prefixes of a chain of summaries, not a walk
    bool is_scan = false;        // all pieces in one launch, see matrix/scan.h; shared_bytes: with a step a warp
    double drift = 0;            // what rounding towards zero takes from a sum on average, in 2^-24 of it
    // On an H200: microseconds of a step of a block that has a multiprocessor to itself, with matrices of `dim`, and
    // multiply-adds of a multiprocessor that is full, in a clock. Of a tree: what a level takes besides its products; of a
    // scan: a product.
    double step = 0, rate = 0;
};

struct MatrixKernels {
    std::span<const MatrixKernel> walks;
    const void* gradient = nullptr;  // of MATMUL: a block of 256 threads for each tile of 64 x 64
    const void* affine_gradient = nullptr;
};

// `numbers`: a state_dtype.
const MatrixKernels& matrix_kernels(Dtype numbers);

inline constexpr int matrix_gradient_block = 256, matrix_gradient_block_tile = 64;

}  // namespace flashscan::cuda
