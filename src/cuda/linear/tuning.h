// SPDX-License-Identifier: Apache-2.0
// How a linear kernel divides the problem over threads, warps, blocks and chunks: plain data, chosen by pure functions
// of the shape.
#pragma once

#include <string>

#include "cuda/launch/chained_tuning.h"
#include "cuda/linear/few_long_rows/params.h"

namespace flashscan::cuda {

// What the choice depends on. Rows are counted per batch after the host folded batches where it can.
struct LinearShape : ChainedShape {
    bool time_inner = false;
    bool batch_invariant = false;
    // Whether each packed sequence is cut into chunks from its own start.
    bool by_sequence() const { return batch_invariant && sequences > 0; }
};

using LinearTile = ChainedTile;

// "chunked", whose warps of a block are constant.
struct ChunkedTuning : ChainedTuning {
    int log2_lane_rows = 5;     // lanes side by side in rows; a warp's other lanes are segments of time
    int log2_group_chunks = 0;  // chunks of a look-back group
    int log2_link_groups = 0;   // groups of a link (look_back.cuh)
    int log2_fold_rows = 0;     // log2 of the fewest rows for which look-back shares its threads out
};

// "few_long_rows".
struct FewLongRowsTuning : ChainedTuning {
    int log2_lane_rows = 5;
    int64_t teams = 1;  // teams that the blocks are divided into
};

ChunkedTuning tune_chunked(const LinearShape& shape, const LinearTile& tile);
FewLongRowsTuning tune_few_long_rows(const LinearShape& shape, const FewLongRowsTile& tile, int multiprocessors);
// Returns why "few_long_rows" is not expected to be the fastest where "rows" without groups of chunks, and "columns",
// are not, or an empty string. "rows" gathers chunks in groups only where it is refused.
std::string few_long_rows_refusal(const LinearShape& shape, const FewLongRowsTuning& tuning);

}  // namespace flashscan::cuda
