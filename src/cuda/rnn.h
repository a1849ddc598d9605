// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// One product of cuBLAS and one kernel for the cell at every step. Takes every problem that cuBLAS takes; packed
// sequences run one after another, T steps in all, because where they begin is known on the device alone.
std::unique_ptr<RnnKernel> make_rnn_alternating(const RnnProblem& problem, const Options& options,
                                                std::string& refusal);

}  // namespace flashscan::cuda
