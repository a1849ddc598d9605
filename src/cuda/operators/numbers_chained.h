// SPDX-License-Identifier: Apache-2.0
// Host side of chained scans of numbers (numbers_chained.cuh): of OUTPUT from INPUT, and for sums of GRAD|INPUT from
// GRAD|OUTPUT, which is the same scan in the other direction.
#pragma once

#include <optional>
#include <string>

#include "core/backend.h"
#include "core/operator_arguments.h"
#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/launch/chained_tuning.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained_params.h"

namespace flashscan::cuda {

// A call's arrays; those that are not wanted are null.
struct NumberArrays {
    const void* from = nullptr;
    void *to = nullptr, *reduced = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
};

// The launch of a plan, settled when the plan is made.
class ChainedNumbers {
  public:
    // Returns nothing where the problem rules these kernels out, or another is expected to be faster. Books the memory
    // through which chunks exchange carries and summaries.
    static std::optional<ChainedNumbers> make(const OperatorProblem& problem, bool backward, const Options& options,
                                              Workspace& workspace);

    // Whether a call's arrays lie as the kernels need.
    bool takes(const void* from, const void* to) const;
    void run(const NumberArrays& arrays, void* scratch, bool overlaps, void* stream) const;
    const void* kernel() const { return kernels_->kernel[down_ && time_inner_]; }
    std::string describe() const;

  private:
    int group_chunks() const { return cuda::group_chunks(params_.grouped != 0, time_inner_); }

    const ChainedKernels* kernels_ = nullptr;
    NumberChainParams params_;  // without a call's pointers
    ChainedTuning tuning_;
    ChainedSets sets_;
    int64_t element_bytes_ = 0;
    bool time_inner_ = false, down_ = false;
    // The place and size of carries and, behind them, of summaries.
    size_t exchanged_ = 0, carries_bytes_ = 0, exchanged_bytes_ = 0;
};

}  // namespace flashscan::cuda
