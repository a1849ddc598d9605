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

    Extent rows;              // sequences
    Extent row_bytes;         // of the states of one row
    int64_t chunk = 0;        // steps; 0: a row is one chunk
    bool few_blocks = false;  // too few rows and channels to keep threads busy
    bool chained = false;     // chunks of time in parallel

    // Whole rows in parallel.
    int64_t block_channels = 1, group_rows = 1;
    Extent blocks = 1, groups = 1;
    Extent slots = 1;      // partial sums of the whole gate gradient, added in order; 1: none
    Extent gate_numbers;   // of the gate gradient
    bool carries = false;  // states of all rows are kept between tiles of time

    // Chunks of time in parallel.
    int workers = 1;
    Extent step_sums;  // numbers of the gate gradient of one step

    size_t scratch_bytes = 0;  // besides the workers' memory
    int64_t work_bytes = 0;    // of each worker, as the kernels of the instruction set say
};

// `chunked` asks for chunks of time in parallel; `threads` is the number of threads of the plan.
LinearPartition partition(const LinearProblem& problem, Pass pass, bool chunked, bool batch_invariant, int threads);

// Where the parts of a chain of chunks lie in scratch.
struct ChainLayout {
    size_t product, power, local, carry;  // of each worker, like `sums`
    size_t next;                          // the carry after the last chunk that was joined
    size_t sums, totals, bytes;
};
ChainLayout chain_layout(const LinearPartition& p);

}  // namespace flashscan::cpu
