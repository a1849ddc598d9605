// SPDX-License-Identifier: Apache-2.0
// The levels of a custom operator's tree as the host knows them, without the contents of SEQ_OFFSETS.
#pragma once

#include <vector>

#include "core/operator_problem.h"
#include "cuda/operators/custom/tree_params.h"

namespace flashscan::cuda {

// TreeParams without pointers to memory; `offsets` is SEQ_OFFSETS of packed problems.
TreeParams tree_params(const OperatorProblem& problem, const void* offsets, bool has_state);
// How many elements of A[1], A[2], ... together there is room for.
int64_t tree_room_above(const TreeParams& params);
// The height of the tree of the longest chain that there can be; 0 where there are no elements.
int tree_height(const TreeParams& params);
// The levels of a sweep that are not empty, in the order in which they are combined.
std::vector<TreeLevel> tree_sweep(const TreeParams& params, TreeSweep sweep);

}  // namespace flashscan::cuda
