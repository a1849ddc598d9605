// SPDX-License-Identifier: Apache-2.0
// How the time of a chain of matrices is cut into chunks, and which kernels run them: pure choices by shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/matrix/instances/table.h"

namespace flashscan::cuda {

struct MatrixShape {
    int32_t dim = 0, rows = 0;  // columns and rows of r
    bool has_sums = false;      // whether summaries have U beside P
    int64_t chains = 0, steps = 0;
    int64_t plan_chains = 0;  // the number of chains that chunks, which decide the bits, are chosen for
    bool cuttable = true;     // whether time may be cut
    // Whether the kernel must not depend on `steps`, as packed sequences must have the bits that each has alone.
    bool any_steps = false;
    bool warpgroups = false;  // whether the device has wgmma and the library code for it
    bool plain = false;       // whether kernels that take plain walks alone may be used
};

// One level of a plan: a chain, and how it is cut. The summaries of its chunks are the steps of the next level's chain.
struct MatrixLevel {
    int64_t steps = 0, chunk_steps = 0, chunks = 1;
    const MatrixKernel* summarise = nullptr;  // null on the uppermost level, which needs no summaries
    const MatrixKernel* walk = nullptr;       // on the uppermost level it may be a tree or a scan
};

inline constexpr int most_matrix_levels = 4;

struct MatrixPlan {
    std::vector<MatrixLevel> levels;
    double microseconds = 0;  // an estimate for comparisons
};

// `kernels` are MatrixKernels::walks, of which at least one must take `shape`; `shared_bytes` is what a block may have.
MatrixPlan plan_matrices(std::span<const MatrixKernel> kernels, const MatrixShape& shape, int multiprocessors,
                         int shared_bytes);

// Whether one of `kernels` takes matrices of `dim`.
bool has_matrix_kernel(std::span<const MatrixKernel> kernels, int32_t dim, int shared_bytes);

}  // namespace flashscan::cuda
