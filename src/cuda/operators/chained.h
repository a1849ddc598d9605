// SPDX-License-Identifier: Apache-2.0
// Host side of chained scans of numbers (chained.cuh): of OUTPUT from INPUT, and for sums of GRAD|INPUT from GRAD|OUTPUT,
// which is the same scan in the other direction.
#pragma once

#include <optional>
#include <string>

#include "core/operator_arguments.h"
#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/launch/chained_tuning.h"
#include "cuda/operators/chained_params.h"
#include "cuda/operators/instances/table.h"

namespace flashscan::cuda {

// The rows that one launch scans.
struct NumberRows {
    int64_t batches = 0, rows = 0, time = 0;
    int64_t batch_stride = 0, row_stride = 0, time_stride = 0;  // in elements
    bool time_inner = false, down = false, exclusive = false;
    bool shares_sectors = false;  // ChainedShape
};

// A call's arrays; those that are not wanted are null.
struct NumberArrays {
    const void* from = nullptr;
    void *to = nullptr, *reduced = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
};

// One launch of a kernel, settled when the plan is made.
class NumberLaunch {
  public:
    // Returns nothing where no kernel is compiled, or where one that looks back is expected to be faster and `must_suit`.
    static std::optional<NumberLaunch> make(const ElementKernels& kernels, const NumberRows& rows, bool must_suit,
                                            Workspace& workspace);
    bool takes(const void* from, const void* to) const;
    void run(const NumberArrays& arrays, void* scratch, bool overlaps, void* stream) const;
    const void* kernel() const { return kernels_->kernel[down_]; }
    std::string describe() const;

  private:
    const ChainedKernels* kernels_ = nullptr;
    NumberChainParams params_;  // without a call's pointers
    ChainedTuning tuning_;
    int64_t element_bytes_ = 0;
    bool time_inner_ = false, down_ = false;
    size_t carries_ = 0, carries_bytes_ = 0;
};

// The scan of all rows of a plan. Few long rows are cut into pieces, each of which is a row of its own: they are reduced,
// their results are scanned, and then each piece is scanned from what is before it. So INPUT is read twice, but no block
// waits for another. Steps that are left over, fewer than there are pieces, are a last piece.
class ChainedNumbers {
  public:
    // Returns nothing where the problem rules these kernels out, or another is expected to be faster. Books the memory
    // through which carries pass.
    static std::optional<ChainedNumbers> make(const OperatorProblem& problem, bool backward, bool batch_invariant,
                                              Workspace& workspace);

    // Whether a call's arrays lie as the kernels need.
    bool takes(const void* from, const void* to) const { return scan_->takes(from, to); }
    void run(const NumberArrays& arrays, void* scratch, bool overlaps, void* stream) const;
    const void* kernel() const { return scan_->kernel(); }
    std::string describe() const;

  private:
    bool cut(const OperatorProblem& problem, const ElementKernels& kernels, NumberRows rows, Workspace& workspace);

    std::optional<NumberLaunch> scan_;            // of whole rows, or of pieces
    std::optional<NumberLaunch> between_, rest_;  // of what the pieces come to, and of the steps that are left over
    int64_t pieces_ = 0;                          // of a row; 0 where rows are not cut
    size_t carries_ = 0, last_ = 0;               // what is before each piece, and before the last one
    int64_t rest_bytes_ = 0, pieces_bytes_ = 0;   // from the begin of a row to the rest, and to the first piece
};

}  // namespace flashscan::cuda
