// SPDX-License-Identifier: Apache-2.0
// How the persistent kernels of recurrent networks share out rows and units: pure choices by shape.
#pragma once

#include <string>

#include "core/backend.h"
#include "cuda/rnn/persistent/params.h"

namespace flashscan::cuda {

// `padded`: of RnnParams; `shared_bytes`: of a block; `clusters`: teams may be clusters. No blocks where a step's vectors
// do not fit.
RnnPersistentShape choose_persistent(const RnnProblem& problem, Pass pass, int64_t rows, int64_t padded,
                                     int multiprocessors, int shared_bytes, bool clusters);
// Microseconds of a step on an H200, in all waves of jobs.
double persistent_step_us(const RnnProblem& problem, Pass pass, int64_t padded, const RnnPersistentShape& shape);
std::string describe(const RnnPersistentShape& shape);

}  // namespace flashscan::cuda
