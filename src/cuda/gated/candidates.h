// SPDX-License-Identifier: Apache-2.0
// The kernels of gated layers.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Takes every problem.
std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options,
                                                std::string& refusal);

}  // namespace flashscan::cuda
