// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel: the first candidate, in the backend's order, that takes the problem.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan {

struct Choice {
    std::unique_ptr<LinearKernel> kernel;
    std::string name;
    std::string passed_over;  // "name: reason" lines of the candidates before it
};

// Throws Error{unsupported} with every candidate's reason when none takes the problem, or the forced one does not.
Choice choose_linear(const Backend& backend, const LinearProblem& problem, const Options& options);

}  // namespace flashscan
