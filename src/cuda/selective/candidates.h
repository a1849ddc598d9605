// SPDX-License-Identifier: Apache-2.0
// The kernels of selective scans.
#pragma once

#include "cuda/launch/selective_summary.h"

namespace flashscan::cuda {

// Takes every problem.
std::unique_ptr<SelectiveKernel> make_selective_resident(const SelectiveProblem& problem, const Options& options,
                                                         std::string& refusal);
std::unique_ptr<SummarisedSelective> make_selective_summarised(const SelectiveProblem& problem, const Options& options);

}  // namespace flashscan::cuda
