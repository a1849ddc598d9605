// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// All steps in one launch, with the recurrent weights of a head on chip: heads that fit, any dtype but f64, GPUs of
// compute capability 9.0 and newer.
std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::cuda
