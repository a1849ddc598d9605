// SPDX-License-Identifier: Apache-2.0
// A schedule of operators on numbers: how kernels compute what a call asks of a plan. Each has a class of its own
// beside the function that makes it (numbers_short_rows.cpp, numbers_chained.cpp, numbers_general.cpp). All of it is
// settled when the plan is made, so that a call only fills in pointers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/operator_arguments.h"
#include "core/operator_problem.h"
#include "core/workspace.h"

namespace flashscan::cuda {

// A use is what a call computes: OUTPUT, OUTPUT and INDEX, or GRAD|INPUT.
enum class NumberUse {
    forward,
    forward_with_index,
    backward
};

class NumberSchedule {
  public:
    virtual ~NumberSchedule() = default;
    // Names the kernels and tells how they divide the problem.
    virtual std::string describe() const = 0;
    // Each tells a condition under which it does not take a call; none if it takes all calls.
    virtual std::vector<std::string> obstacles() const = 0;
    virtual bool takes(const OperatorBuffers& buffers) const = 0;
    virtual void run(const OperatorBuffers& buffers, void* stream) const = 0;
    size_t scratch_bytes() const { return workspace_.bytes(); }

  protected:
    Workspace workspace_;
};

using NumberSchedulePointer = std::unique_ptr<NumberSchedule>;

// The following functions make a schedule. Where there is none, they tell in `refusal` which kernel they would take and
// which condition fails: the problem rules the kernel out, or another is expected to be faster.
NumberSchedulePointer make_short_numbers(const OperatorProblem& problem, NumberUse use, const Options& options,
                                         std::string& refusal);
NumberSchedulePointer make_chained_numbers(const OperatorProblem& problem, NumberUse use, const Options& options,
                                           std::string& refusal);
// The scan of elements, each of which is so many neighbouring channels. With one channel it takes all calls.
NumberSchedulePointer make_general_numbers(const OperatorProblem& problem, NumberUse use, const Options& options,
                                           int channels, std::string& refusal);

// The following are shared by schedules.

// The arrays of a scan of a call; those that are not wanted are null. Backward it is the scan of the gradients of sums.
struct NumberArrays {
    const void* from = nullptr;
    void *to = nullptr, *reduced = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
    int64_t* index = nullptr;
};
NumberArrays arrays_of_scan(const OperatorBuffers& buffers, NumberUse use, bool is_reduction);

std::string no_kernel_refusal(const OperatorProblem& problem);
bool is_time_innermost(const OperatorProblem& problem);

}  // namespace flashscan::cuda
