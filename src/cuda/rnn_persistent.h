// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// All steps in one launch, with products by the blocks of the grid and a barrier a step: every cell and dtype, heads
// whose rows of h fit shared memory. Packed sequences run one after another, as in the alternating kernel.
std::unique_ptr<RnnKernel> make_rnn_persistent(const RnnProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::cuda
