// SPDX-License-Identifier: Apache-2.0
// Linear recurrences and gated layers, which are one inside, run the same way: this is what their classes share.
#pragma once

#include <algorithm>
#include <string>

#include "cpu/isa.h"
#include "cpu/linear_partition.h"
#include "cpu/stream_stores.h"
#include "cpu/threads.h"

namespace flashscan::cpu {

// Calls of both families share the rows, chunks and sums of the partition, how the pass walks, and where states enter
// and leave.
template <typename Problem>
void set_recurrence(LinearCall& call, const Problem& p, const LinearPartition& q, const CommonBuffers& b, Pass pass) {
    const bool backward = pass == Pass::backward;
    call.backward = backward;
    call.ascending = (p.direction == Direction::forward) != backward;
    call.start = static_cast<const char*>(backward ? b.grad_state_out : b.state_in);
    call.end = static_cast<char*>(backward ? b.grad_state_in : b.state_out);
    if (backward) call.first_state = static_cast<const char*>(b.state_in);
    call.reset = b.reset;
    call.offsets = p.packed() ? b.seq_offsets : nullptr;
    call.wide_offsets = p.offsets_dtype == Dtype::i64;
    call.sum_batch = q.sum_batch;
    call.sum_time = q.sum_time;
    call.sum_channels = q.sum_channels;
    call.rows = q.rows;
    call.time = p.time;
    call.channels = p.channels;
    call.chunk = q.chunk;
}

inline int64_t workers_of(const LinearPartition& q, int threads) {
    return q.chained ? q.workers : std::min<int64_t>(threads, q.groups * q.blocks);
}

inline std::string describe(const LinearPartition& q, Isa isa, int64_t channels) {
    const char* along = q.variant.along_time ? "time" : "channels";
    const int64_t bytes = isa == Isa::avx512 ? 64 : isa == Isa::avx2 ? 32 : 16;
    std::string text = fmt::format("{} vectorised by {}, ", along, bytes / (q.variant.wide ? 8 : 4));
    if (q.chained)
        return text + fmt::format("time in chunks of {}, {} at once, because {} rows of {} channels are few", q.chunk,
                                  q.workers, q.rows, channels);
    text += q.chunk > 0 ? fmt::format("time in chunks of {} for batch invariance", q.chunk) : "time in 1 chunk";
    return text + fmt::format(", {} x {} blocks of {} rows and {} channels", q.groups, q.blocks, q.group_rows,
                              q.block_channels);
}

// Why time is not cut into chunks that run in parallel; empty: it is.
inline std::string refusal_of_chunks(const LinearPartition& forward, const LinearPartition& backward, int64_t time,
                                     int64_t channels) {
    if (forward.chained && (forward.few_blocks || backward.few_blocks)) return {};
    return forward.few_blocks ? fmt::format("{} steps are too few to cut into chunks", time)
                              : fmt::format("{} rows of {} channels keep the threads busy", forward.rows, channels);
}

// Whole rows in parallel; sums_of(group, block) is where a block leaves its sums, null where none are wanted.
template <typename SumsOf>
void run_blocks(const LinearCall& call, const LinearPartition& q, const LinearKernels& kernels, int threads,
                char* work_memory, SumsOf&& sums_of) {
    const auto task = [&](int64_t i, int64_t worker) {
        const int64_t group = i / q.blocks, block = i % q.blocks;
        const LinearBlock work{group * q.group_rows, std::min<int64_t>(q.rows, (group + 1) * q.group_rows),
                               block * q.block_channels,
                               std::min<int64_t>(call.channels, (block + 1) * q.block_channels), sums_of(group, block)};
        kernels.rows(call, work, work_memory + worker * q.work_bytes);
    };
    for_each(threads, q.groups * q.blocks, task);
}

}  // namespace flashscan::cpu
