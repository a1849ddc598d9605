// SPDX-License-Identifier: Apache-2.0
// A plan: a checked problem, the kernel chosen for it, and the argument tables of its two passes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/backend.h"

namespace flashscan {

class Plan {
  public:
    virtual ~Plan() = default;
    virtual size_t argument_bytes(Pass pass, int32_t id) const = 0;
    virtual const std::string& describe() const = 0;
    // Throws Error where the plan has no such pass.
    virtual std::span<const ArgumentSpec> arguments(Pass pass) const = 0;
    virtual const Options& options() const = 0;
    virtual const std::string& kernel_name() const = 0;
    virtual const std::string& kernel_detail() const = 0;
    // Returns how many operations a call that is given all arguments enqueues on a stream.
    virtual int64_t launches(Pass pass) const = 0;
    // The time of this rank.
    virtual int64_t steps() const = 0;
    // Kernel::meet.
    virtual void meet() = 0;
    // Kernel::settle, and what follows from it.
    virtual void settle(std::span<const int64_t> steps) = 0;
    // The text that has to be the same in the plans of all ranks of a communicator.
    virtual std::string agreement() const = 0;
    virtual void execute(Pass pass, std::span<const Argument> arguments, void* stream) const = 0;
};

// Check the problem and the options, and take the first of the backend's kernels that takes the problem. Throw Error.
std::unique_ptr<Plan> make_plan(const LinearProblem& problem, const Options& options);
std::unique_ptr<Plan> make_plan(const RnnProblem& problem, const Options& options);
std::unique_ptr<Plan> make_plan(const OperatorProblem& problem, const Options& options);
std::unique_ptr<Plan> make_plan(const GatedProblem& problem, const Options& options);
std::unique_ptr<Plan> make_plan(const SelectiveProblem& problem, const Options& options);

}  // namespace flashscan
