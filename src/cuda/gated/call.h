// SPDX-License-Identifier: Apache-2.0
// The arguments that every kernel of gated layers has: those of the problem, settled with the plan, and those of a
// call.
#pragma once

#include <span>

#include "core/gated_arguments.h"
#include "cuda/gated/params.h"

namespace flashscan::cuda {

// The arguments of a pass but for pointers, and but for how the pass is cut into blocks.
GatedParams params_of(const GatedProblem& problem, Pass pass);
// Fill in the pointers of a call that both passes have, and that forward has.
void point_inputs(GatedParams& params, const GatedProblem& problem, const GatedBuffers& b);
void point_forward(GatedParams& params, const GatedProblem& problem, const GatedBuffers& b);

// The one of the kernels for layers with a name that computes these parts; null where none does.
const void* named_kernel(std::span<const void* const, gated_layer_count> named, const GatedParts& parts);

}  // namespace flashscan::cuda
