// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of chains of matrices: plain data, no CUDA types.
//
// MATMUL and AFFINE, forward and backward, are all one recurrence of `rows` rows of d numbers,
//
//     r[s] = r[s-1] M[s] + u[s]
//
//     MATMUL forward     M = x                 no u      r = y
//     MATMUL backward    M = x^H, time turned  u = dy    r = g
//     AFFINE forward     M = W^T               u = x     r = y as a row
//     AFFINE backward    M = conj W, turned    u = dy    r = g as a row
//
// where y[t] = y[t-1] x[t] or W[t] y[t-1] + x[t], and g[t] is the gradient of y[t]. The rows do not depend on each
// other, so they are divided among blocks. Time is cut into chunks, and a chunk maps r to r P + U: see
// walk_general.cuh.
#pragma once

#include "core/types.h"
#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

// Strides, counted in elements. The element of chain c at step s is number outer * o + time * t + inner * i, where
// c = o * chains_inside + i, and t counts from the first step or, turned, from the last one.
struct MatrixPlaces {
    int64_t outer = 0, time = 0, inner = 0;
};

enum class MatrixStart : int32_t {
    zeros,
    carried,  // r[-1] is read
    nothing   // there is no r[-1]: r[0] is M[0], or u[0] where there is u
};

enum class MatrixWork : int32_t {
    walk,       // computes r of every step
    summaries,  // computes P of every chunk, and U where there is u
};

struct MatrixWalk {
    MatrixWork work{};
    int32_t dim = 0, rows = 0;
    int64_t chains = 0, chains_inside = 1;
    int64_t steps = 0;  // steps of a chain; packed sequences have their own
    SequenceOffsets offsets;
    int64_t chunk_steps = 0, chunks = 1;
    int32_t row_tiles = 1;
    MatrixPlaces places;

    const void* matrix = nullptr;
    const void* addend = nullptr;  // u; null where there is none
    void* emitted = nullptr;       // r of every step; null where it is not wanted
    Dtype matrix_dtype{}, addend_dtype{}, added_start_dtype{};
    Dtype emitted_dtype{};
    int32_t turned = 0;      // whether step 0 is the last in time
    int32_t transposed = 0;  // whether M is the transpose of what `matrix` holds
    int32_t conjugate = 0;
    // Inclusive scans add u[s] and emit r[s] after the multiplication of step s. Backward adds dy[s] and emits g[s]
    // before it, and exclusive scans emit r[s-1] at step s.
    int32_t adds_before = 0, emits_before = 0;
    // Whether the last chunk omits its last step, because r after it comes from the chain of summaries.
    int32_t leaves_end = 0;
    int32_t rounded_factors = 0;  // whether the factors may be rounded to tf32

    MatrixStart start{};
    const void* started = nullptr;      // r[-1], [chain, rows, d], for chunk 0
    const void* added_start = nullptr;  // a second array that is added to r[-1]; null where there is none
    const void* carries = nullptr;      // r[-1], [chain, chunk, rows, d], for the other chunks

    // Results in the type of number that is computed with, unless said otherwise.
    void* products =
        nullptr;  // P, [chain, chunk, d, d]; in a tree the products of prefix_tree.h, in a scan what blocks exchange
    void* sums = nullptr;      // U, [chain, chunk, rows, d]
    void* finished = nullptr;  // r after the last step, [chain, rows, d]
    void* reduced = nullptr;   // the same, in reduced_dtype
    void* last = nullptr;      // the same, in last_dtype, into the array of r of every step, with strides last_places
    MatrixPlaces last_places;
    int64_t last_inside = 1;       // chains_inside of that array
    uint32_t* counters = nullptr;  // counters of a tree; the launch before the tree's sets them to zero
    int64_t num_counters = 0;
    Dtype reduced_dtype{}, last_dtype{};
};

// Arguments of the kernels that compute GRAD|INPUT and GRAD|GATE of every step from g and y.
struct MatrixGradient {
    int32_t dim = 0;
    int64_t chains_inside = 1;
    int64_t steps = 0;
    SequenceOffsets offsets;
    MatrixPlaces places;
    int32_t turned = 0;       // whether the recurrence goes from the last time to the first
    int32_t y_is_before = 0;  // whether the element of `y` at step t is y[t-1], not y[t]
    Dtype dtype{}, y_dtype{};
    const void* y = nullptr;
    const void* g = nullptr;         // in the type of number that is computed with
    const void* state_in = nullptr;  // null where there is no y[-1]
    void* grad_input = nullptr;
    void* grad_gate = nullptr;
};

}  // namespace flashscan::cuda
