// SPDX-License-Identifier: Apache-2.0
// Estimates what a pass of an operator over ranks costs. The functions are pure and look at the problem alone, so that
// all ranks find the same.
#pragma once

#include "core/rank_schedule.h"
#include "cuda/ranks/operator_told.h"

namespace flashscan::cuda {

// On a rank of `steps` steps. `in_registers`: a thread's registers hold the matrices, which are scanned as numbers are.
RankWork operator_work(const OperatorProblem& problem, bool in_registers, Pass pass, int32_t ranks, int64_t steps);

}  // namespace flashscan::cuda
