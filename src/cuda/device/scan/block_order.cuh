// SPDX-License-Identifier: Apache-2.0
// The block swizzle of chained scans: which group of rows and which chunk of time blockIdx.x stands for. The groups are
// divided into sets. Block indices run through one set after another, and within a set through the groups of the first
// chunk, then through those of the second, and so on. Blocks that run at the same time then read memory that lies close
// together, and the blocks of the chunk before have started a set's width earlier.
#pragma once

#include "cuda/device/scan/chained_sets.h"
#include "cuda/device/tile/steps.cuh"

namespace flashscan::cuda {

// The group and chunk of a block. The last set may be padded with groups that have no rows.
struct PlaceInSets {
    uint32_t group, chunk;
};

__device__ __forceinline__ PlaceInSets place_in_sets(const ChainedSets& r) {
    const uint32_t set = quotient(blockIdx.x, r.by_blocks), in = blockIdx.x - set * r.blocks;
    const uint32_t chunk = quotient(in, r.by_groups);
    return {set * r.groups + in - chunk * r.groups, chunk};
}

}  // namespace flashscan::cuda
