// SPDX-License-Identifier: Apache-2.0
// The kernels of selective scans.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// Takes every problem.
std::unique_ptr<SelectiveKernel> make_selective_resident(const SelectiveProblem& problem, const Options& options,
                                                         std::string& refusal);

}  // namespace flashscan::cuda
