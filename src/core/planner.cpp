// SPDX-License-Identifier: Apache-2.0
#include "core/planner.h"

#include "core/error.h"

namespace flashscan {

Choice choose_linear(const Backend& backend, const LinearProblem& problem, const Options& options) {
    Choice choice;
    bool known = options.kernel.empty();
    std::string names;
    for (const LinearCandidate& candidate : backend.linear_candidates()) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate.name);
        if (!options.kernel.empty() && options.kernel != candidate.name) continue;
        known = true;
        std::string refusal;
        choice.kernel = candidate.make(problem, options, refusal);
        choice.name = candidate.name;
        if (choice.kernel) return choice;
        choice.passed_over += fmt::format("{}: {}\n", candidate.name, refusal);
    }
    if (!known)
        fail(Code::invalid_argument, "kernel is \"{}\"; the {} backend accepts {}", options.kernel, backend.name(),
             names);
    fail(Code::unsupported, "no {} kernel takes {}:\n{}", backend.name(), problem.describe(), choice.passed_over);
}

}  // namespace flashscan
