// SPDX-License-Identifier: Apache-2.0
// Sizes of a block of walk_pipelined.cuh.
#pragma once

namespace flashscan::cuda {

template <int Dim, int RowGroups, int ColumnGroups, int StageDepth, int Stages, int Eights>
struct PipelineTile {
    static constexpr int dim = Dim, row_groups = RowGroups, column_groups = ColumnGroups, eights = Eights;
    static constexpr int consumers = RowGroups * ColumnGroups, threads = 128 * (consumers + 1);
    static constexpr int rows = 64 * RowGroups, columns = Dim / ColumnGroups;  // rows of a block, columns of a consumer
    static constexpr int stage_depth = StageDepth, stages = Stages;
    static constexpr int stage_words = StageDepth * Dim / 4;  // 16-byte words of the high parts of a stage
    static constexpr int own_words = stage_words / 128;       // of them, how many a thread of the producer has
    static constexpr int shared_bytes = 4 * rows * Dim + 32 * Stages * stage_words + 16 * Stages;
    static constexpr int blocks = 2 * shared_bytes < 220000 ? 2 : 1;  // blocks per multiprocessor
    // Registers of a thread of each role. Together they are those of a multiprocessor, or of half of it.
    static constexpr int consumer_registers = consumers == 1 ? 168 : columns > 128 ? 208 : 184;
    static constexpr int producer_registers = (consumers == 1 ? 256 : 504) - consumers * consumer_registers;
    static_assert(columns % 64 == 0 && StageDepth % (8 * Eights) == 0 && stage_words % 128 == 0);
};

}  // namespace flashscan::cuda
