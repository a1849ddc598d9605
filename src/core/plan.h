// SPDX-License-Identifier: Apache-2.0
// A plan: a checked problem, the kernel chosen for it, and the argument tables of its two passes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/arguments.h"
#include "core/backend.h"

namespace flashscan {

class LinearPlan {
  public:
    // Checks `problem` and `options` and walks the backend's candidates. Throws Error.
    LinearPlan(LinearProblem problem, Options options);

    size_t argument_bytes(Pass pass, int32_t id) const;
    const std::string& describe() const { return description_; }
    void execute(Pass pass, std::span<const Argument> arguments, void* stream) const;

  private:
    std::span<const ArgumentSpec> specs(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }

    LinearProblem problem_;
    Options options_;
    const Backend* backend_;
    std::unique_ptr<LinearKernel> kernel_;
    std::vector<ArgumentSpec> forward_, backward_;
    std::string description_;
};

}  // namespace flashscan
