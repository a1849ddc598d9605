// SPDX-License-Identifier: Apache-2.0
// How the persistent kernels of recurrent networks divide rows and units among blocks: pure choices by shape.
#pragma once

#include <string>

#include "core/backend.h"
#include "cuda/rnn/persistent/params.h"

namespace flashscan::cuda {

// `padded` is that of RnnParams, `shared_bytes` what a block may have; `clusters` tells whether teams may be clusters.
// The result has no blocks where the vectors of a step do not fit.
RnnPersistentShape choose_persistent(const RnnProblem& problem, Pass pass, int64_t rows, int64_t padded,
                                     int multiprocessors, int shared_bytes, bool clusters);
// Estimates the microseconds of a step on an H200, for all waves of jobs.
double persistent_step_us(const RnnProblem& problem, Pass pass, int64_t padded, const RnnPersistentShape& shape);
std::string describe(const RnnPersistentShape& shape);

}  // namespace flashscan::cuda
