// SPDX-License-Identifier: Apache-2.0
// How a pass of the linear recurrence is cut into blocks of channels, groups of rows and chunks of time. Whatever
// changes the bits of a result (chunks, and blocks and groups that sums of the gate gradient are taken over) follows
// from the problem alone; the rest may follow the number of threads.
#pragma once

#include "core/backend.h"
#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

struct LinearPartition {
    LinearVariant variant{};
    bool sum_batch = false, sum_time = false, sum_channels = false;
    bool sums() const { return sum_batch || sum_time || sum_channels; }

    int64_t rows = 0;         // sequences
    int64_t row_bytes = 0;    // of the states of one row
    int64_t chunk = 0;        // steps; 0: a row is one chunk
    bool few_blocks = false;  // too few rows and channels to keep threads busy
    bool windows = false;     // chunks of time in parallel

    // Whole rows in parallel.
    int64_t block_channels = 1, blocks = 1;
    int64_t group_rows = 1, groups = 1;
    int64_t slots = 1;         // partial sums of the whole gate gradient, added in order; 1: none
    int64_t gate_numbers = 0;  // of the gate gradient
    bool carries = false;      // states of all rows are kept between tiles of time

    // Windows.
    int64_t window = 1;     // chunks in flight
    int64_t step_sums = 0;  // numbers of the gate gradient of one step

    size_t scratch_bytes = 0;
};

// `chunked` asks for windows; `threads` is the number of threads of the plan.
LinearPartition partition(const LinearProblem& problem, Pass pass, bool chunked, bool batch_invariant, int threads);

inline constexpr int64_t most_window = 64;

// Where the windows' parts lie in scratch.
struct WindowLayout {
    size_t product, local, carry, flags, sums, totals, bytes;
};
WindowLayout window_layout(const LinearPartition& p);

}  // namespace flashscan::cpu
