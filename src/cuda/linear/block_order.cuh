// SPDX-License-Identifier: Apache-2.0
// The order in which blocks take their work in the kernels "rows" and "columns": through sets of groups of rows, and of
// a set through its groups first, then through its chunks. What is read at about the same time then lies close
// together.
#pragma once

#include "cuda/device/tile/steps.cuh"
#include "cuda/linear/rows_params.h"

namespace flashscan::cuda {

// What a block takes; groups past the last are no rows'.
struct PlaceInSets {
    uint32_t group, chunk;
};

__device__ __forceinline__ PlaceInSets place_in_sets(const RowsParams& r) {
    const uint32_t set = quotient(blockIdx.x, r.by_blocks), in = blockIdx.x - set * r.blocks;
    const uint32_t chunk = quotient(in, r.by_groups);
    return {set * r.groups + in - chunk * r.groups, chunk};
}

}  // namespace flashscan::cuda
