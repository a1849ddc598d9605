// SPDX-License-Identifier: Apache-2.0
// The kernels of selective scans.
#pragma once

#include "cuda/launch/selective_summary.h"

namespace flashscan::cuda {

std::unique_ptr<SummarisedSelective> make_selective_decode(const SelectiveProblem& problem, const Options& options,
                                                           std::string& refusal);
// Takes every problem.
std::unique_ptr<SummarisedSelective> make_selective_resident(const SelectiveProblem& problem, const Options& options,
                                                             std::string& refusal);

// In order of preference.
inline constexpr Candidate<SummarisedSelective, SelectiveProblem> selective_candidates[] = {
    {"decode", make_selective_decode}, {"resident", make_selective_resident}};

}  // namespace flashscan::cuda
