// SPDX-License-Identifier: Apache-2.0
// What the kernels of chains of matrices are launched with: plain data, no CUDA types.
//
// All of MATMUL and AFFINE, forward and backward, is one recurrence of `rows` rows of d numbers,
//
//     r[s] = r[s-1] M[s] + u[s]
//
//     MATMUL forward     M = x                 no u      r = y
//     MATMUL backward    M = x^H, time turned  u = dy    r = g
//     AFFINE forward     M = W^T               u = x     r = y as a row
//     AFFINE backward    M = conj W, turned    u = dy    r = g as a row
//
// where y[t] = y[t-1] x[t] or W[t] y[t-1] + x[t], and g[t] is the gradient of y[t]. The rows do not need each other, so
// blocks share them out; and time is cut into pieces, where a piece takes r to r P + U: see walk.cuh.
#pragma once

#include "core/types.h"
#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

// Numbers of elements: element e of chain c at step s begins at (outer * o + time * t + inner * i) * numbers, where
// c = o * chains_inside + i, and t counts from the first or, turned, from the last step.
struct MatrixPlaces {
    int64_t outer = 0, time = 0, inner = 0;
};

enum class MatrixStart : int32_t {
    zeros,
    carried,  // r[-1] is read
    nothing   // there is no r[-1]: r[0] is M[0], or u[0] where there are u
};

enum class MatrixWork : int32_t {
    walk,       // r of every step
    summaries,  // P of every piece, and U where there are u
};

struct MatrixWalk {
    MatrixWork work{};
    int32_t dim = 0, rows = 0;
    int64_t chains = 0, chains_inside = 1;
    int64_t steps = 0;  // of a chain; packed: of its sequence, which is `outer`
    SequenceOffsets offsets;
    int64_t piece_steps = 0, pieces = 1;
    int32_t row_tiles = 1;
    MatrixPlaces places;

    const void* matrix = nullptr;
    const void* addend = nullptr;  // u; null: none
    void* emitted = nullptr;       // r of every step; null: not wanted
    Dtype matrix_dtype{}, addend_dtype{}, added_start_dtype{};
    Dtype emitted_dtype{};
    int32_t turned = 0;      // step 0 is the last in time
    int32_t transposed = 0;  // M is the transpose of what `matrix` holds
    int32_t conjugate = 0;
    // MATMUL's and AFFINE's scans work on r, M, u and emit r. Backward adds dy[s] and emits g[s] before it multiplies,
    // exclusive scans emit what was there before.
    int32_t adds_before = 0, emits_before = 0;
    // r after the last step comes from the summaries' chain, which all have: the last piece leaves its last step out.
    int32_t leaves_end = 0;
    int32_t rounded_factors = 0;  // the factors may be rounded to tf32

    MatrixStart start{};
    const void* started = nullptr;      // r[-1] of [chain, rows, d], used by piece 0
    const void* added_start = nullptr;  // the same, which is added; null: none
    const void* carries = nullptr;      // [chain, piece, rows, d], used by the others

    // Of numbers as they are computed with.
    void* products = nullptr;  // P of [chain, piece, d, d]; of a tree what tree.h counts
    void* sums = nullptr;      // U of [chain, piece, rows, d]
    void* finished = nullptr;  // r after the last step, [chain, rows, d]
    void* reduced = nullptr;   // the same, in reduced_dtype
    void* last = nullptr;      // the same, as r of the last step in the array whose elements are last_places apart
    MatrixPlaces last_places;
    int64_t last_inside = 1;       // chains_inside there
    uint32_t* counters = nullptr;  // of the launch to come, set to zero
    int64_t num_counters = 0;
    Dtype reduced_dtype{}, last_dtype{};
};

// GRAD|INPUT and GRAD|GATE from g and y, step by step.
struct MatrixGradient {
    int32_t dim = 0;
    int64_t chains_inside = 1;
    int64_t steps = 0;
    SequenceOffsets offsets;
    MatrixPlaces places;
    int32_t turned = 0;       // time runs backwards
    int32_t y_is_before = 0;  // the y of a step is y[t-1], else y[t]
    Dtype dtype{}, y_dtype{};
    const void* y = nullptr;
    const void* g = nullptr;         // as numbers are computed with
    const void* state_in = nullptr;  // null: there is no y[-1]
    void* grad_input = nullptr;
    void* grad_gate = nullptr;
};

}  // namespace flashscan::cuda
