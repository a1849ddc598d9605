// SPDX-License-Identifier: Apache-2.0
// How a block of pipeline.cuh is made up: sizes alone.
#pragma once

namespace flashscan::cuda {

template <int Dim, int RowGroups, int ColumnGroups, int StageDepth, int Stages, int Chunk>
struct PipelineTile {
    static constexpr int dim = Dim, row_groups = RowGroups, column_groups = ColumnGroups, chunk = Chunk;
    static constexpr int consumers = RowGroups * ColumnGroups, threads = 128 * (consumers + 1);
    static constexpr int rows = 64 * RowGroups, columns = Dim / ColumnGroups;  // columns: of a consumer
    static constexpr int stage_depth = StageDepth, stages = Stages;
    static constexpr int stage_words = StageDepth * Dim / 4;  // of 16 bytes, of the high parts
    static constexpr int own_words = stage_words / 128;       // of a producing thread
    static constexpr int shared_bytes = 4 * rows * Dim + 32 * Stages * stage_words + 16 * Stages;
    static constexpr int blocks = 2 * shared_bytes < 220000 ? 2 : 1;  // of a multiprocessor
    // Of a thread, where warpgroups share out a multiprocessor's or the half of them.
    static constexpr int consumer_registers = consumers == 1 ? 168 : columns > 128 ? 208 : 184;
    static constexpr int producer_registers = (consumers == 1 ? 256 : 504) - consumers * consumer_registers;
    static_assert(columns % 64 == 0 && StageDepth % (8 * Chunk) == 0 && stage_words % 128 == 0);
};

}  // namespace flashscan::cuda
