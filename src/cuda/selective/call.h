// SPDX-License-Identifier: Apache-2.0
// The arguments that every kernel of selective scans has: those of the problem, settled with the plan, and those of a
// call.
#pragma once

#include "core/selective_arguments.h"
#include "cuda/selective/params.h"

namespace flashscan::cuda {

// The arguments of a pass but for pointers, and but for how the pass is cut into blocks.
SelectiveParams params_of(const SelectiveProblem& problem, Pass pass);
// Fills in the pointers of a call that both passes have.
void point_inputs(SelectiveParams& params, const SelectiveProblem& problem, const SelectiveBuffers& b);

}  // namespace flashscan::cuda
