// SPDX-License-Identifier: Apache-2.0
// INDEX of running minima and maxima: the steps that they come from.
#pragma once

#include "core/operator_arguments.h"

namespace flashscan::cpu {

// Writes b.index in a walk over INPUT of its own; OUTPUT is left to the kernel of the numbers.
void find_indices(const OperatorProblem& problem, const OperatorBuffers& b, int threads);

}  // namespace flashscan::cpu
