// SPDX-License-Identifier: Apache-2.0
// Replays the calls of a network that has several launches in each step as a CUDA graph.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Wraps `kernel`. Calls that repeat the pointers of an earlier call are replayed as a graph, so that the host pays for
// a single launch.
std::unique_ptr<RnnKernel> make_rnn_replay(std::unique_ptr<RnnKernel> kernel, const RnnProblem& problem,
                                           const Options& options);

}  // namespace flashscan::cuda
