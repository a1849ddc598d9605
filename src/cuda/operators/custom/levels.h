// SPDX-License-Identifier: Apache-2.0
// The levels of a custom operator's tree as the host counts them.
#pragma once

#include <vector>

#include "core/operator_problem.h"
#include "cuda/operators/custom/tree_params.h"

namespace flashscan::cuda {

// All of TreeParams but memory; `offsets` are SEQ_OFFSETS of packed problems.
TreeParams tree_params(const OperatorProblem& problem, const void* offsets, bool has_state);
// Elements of A[1], A[2], ... together that there is room for.
int64_t tree_room_above(const TreeParams& params);
// Of the longest chain that there can be; 0: there are no elements.
int tree_height(const TreeParams& params);
// The levels of a sweep in the order in which they are combined, none of them empty.
std::vector<TreeLevel> tree_sweep(const TreeParams& params, TreeSweep sweep);

}  // namespace flashscan::cuda
