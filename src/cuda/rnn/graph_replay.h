// SPDX-License-Identifier: Apache-2.0
// Calls of a network whose steps are launches each, replayed as a CUDA graph.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// `kernel`, whose calls enqueue several launches a step, with the calls that repeat their pointers replayed as a graph:
// the host then pays for one launch.
std::unique_ptr<RnnKernel> make_rnn_replay(std::unique_ptr<RnnKernel> kernel, const RnnProblem& problem,
                                           const Options& options);

}  // namespace flashscan::cuda
