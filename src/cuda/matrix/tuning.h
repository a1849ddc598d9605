// SPDX-License-Identifier: Apache-2.0
// How a chain of matrices is cut in time, and which kernels walk the pieces: pure choices by shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/matrix/instances/table.h"

namespace flashscan::cuda {

struct MatrixShape {
    int32_t dim = 0, rows = 0;  // of r
    bool has_sums = false;      // pieces have U beside P
    int64_t chains = 0, steps = 0;
    int64_t plan_chains = 0;  // for which the pieces are chosen, which decide the bits
    bool cuttable = true;     // in time
    // The kernel must not depend on `steps`: packed sequences whose bits are to be those of each alone.
    bool any_steps = false;
    bool warpgroups = false;  // the device has their products
    bool plain = false;       // kernels of plain walks alone may be taken
};

// A chain, whose pieces' summaries are the next one's steps.
struct MatrixLevel {
    int64_t steps = 0, piece_steps = 0, pieces = 1;
    const MatrixKernel* summarise = nullptr;  // null: one piece, which needs no summary
    const MatrixKernel* walk = nullptr;       // or the uppermost chain's tree
};

inline constexpr int most_matrix_levels = 4;

struct MatrixPlan {
    std::vector<MatrixLevel> levels;
    double microseconds = 0;  // as estimated, good for comparing
};

// `kernels`: MatrixKernels::walks of a device with so many multiprocessors and so much shared memory a block, of which
// one takes `shape`.
MatrixPlan plan_matrices(std::span<const MatrixKernel> kernels, const MatrixShape& shape, int multiprocessors,
                         int shared_bytes);

// Whether one of `kernels` takes matrices of `dim`.
bool has_matrix_kernel(std::span<const MatrixKernel> kernels, int32_t dim, int shared_bytes);

}  // namespace flashscan::cuda
