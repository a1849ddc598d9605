// SPDX-License-Identifier: Apache-2.0
// Host side of chained scans of numbers: of OUTPUT from INPUT (numbers_chained.cuh), and of GRAD|INPUT from
// GRAD|OUTPUT, which for sums is the same scan in the other direction; other operators have
// numbers_chained_backward.cuh for it.
#pragma once

#include <initializer_list>
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
    void* marks = nullptr;
    int64_t* index = nullptr;
};

// Names what a launch computes.
enum class ChainedUse {
    scan,           // OUTPUT
    indexed,        // OUTPUT and INDEX
    sum_gradients,  // GRAD|INPUT of sums
    marks,          // the carries that `gradients` starts its tiles from
    gradients       // GRAD|INPUT of operators with slopes, from marks
};

// Whether the plan may have the kernels of chained scans and of short rows: no BATCH_INVARIANT but of integers, no
// packed or empty sequences, and a device for which there is machine code, since these kernels have no PTX.
// BATCH_INVARIANT rules them out because the number of rows decides how chained scans cut time into chunks, and the
// place of a call's arrays in memory decides which kernel runs; the bits of integers depend on neither.
bool is_for_dense_rows(const OperatorProblem& problem, const Options& options);
bool is_time_innermost(const OperatorProblem& problem);

// A launch of a plan, settled when the plan is made.
class ChainedNumbers {
  public:
    // Returns nothing where the problem rules these kernels out, or another is expected to be faster. Books the memory
    // through which chunks exchange carries and summaries.
    static std::optional<ChainedNumbers> make(const OperatorProblem& problem, ChainedUse use, const Options& options,
                                              Workspace& workspace);

    // Whether a call's arrays lie as the kernels need; null ones do.
    bool takes(std::initializer_list<const void*> arrays) const;
    void run(const NumberArrays& arrays, void* scratch, void* stream) const;
    // Computes the gradients of a call; `marks` is what a launch for ChainedUse::marks has written.
    void run_gradients(const OperatorBuffers& buffers, bool reduction, void* marks, void* stream) const;
    int64_t marks_bytes() const;
    const void* kernel() const { return kernels_->kernel[down_ && time_inner_]; }
    std::string describe() const;

  private:
    int group_chunks() const { return cuda::group_chunks(params_.grouped != 0, time_inner_); }
    // Launches the kernel with the parameters of a call, but for those through which chunks exchange values.
    template <typename Params>
    void launch_chained(Params params, void* scratch, void* stream) const;

    const ChainedKernels* kernels_ = nullptr;
    NumberChainParams params_;  // without a call's pointers
    ChainedTuning tuning_;
    ChainedSets sets_;
    int64_t element_bytes_ = 0, state_bytes_ = 0;
    bool time_inner_ = false, down_ = false;
    bool overlaps_ = false;  // whether its launch may begin before the one that clears memory for it has ended
    // The place and size of carries and, behind them, of summaries.
    size_t exchanged_ = 0, carries_bytes_ = 0, exchanged_bytes_ = 0;
};

// The two launches of gradients of operators with slopes.
class ChainedNumberGradients {
  public:
    static std::optional<ChainedNumberGradients> make(const OperatorProblem& problem, const Options& options,
                                                      Workspace& workspace);

    bool takes(const OperatorBuffers& b) const {
        return marks_.takes({b.input}) &&
               gradients_.takes({b.input, reduction_ ? nullptr : b.grad_output, b.grad_input});
    }
    void run(const OperatorBuffers& buffers, void* stream) const;
    std::string describe() const { return gradients_.describe(); }

  private:
    ChainedNumbers marks_, gradients_;
    size_t place_ = 0;  // of the marks in scratch memory
    bool reduction_ = false;
};

}  // namespace flashscan::cuda
