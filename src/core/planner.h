// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel: the first candidate, in the backend's order, that takes the problem.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/backend.h"
#include "core/error.h"

namespace flashscan {

template <typename Kernel>
struct Choice {
    std::unique_ptr<Kernel> kernel;
    std::string name;
    std::string passed_over;  // "name: reason" lines of the candidates before it
};

// Throws Error{unsupported} with every candidate's reason where none takes the problem, or where the one that
// options.kernel names does not; and Error{invalid_argument} where options.kernel names no candidate. `backend` names
// the backend in these sentences.
template <typename Kernel, typename Problem>
Choice<Kernel> choose(const char* backend, std::span<const Candidate<Kernel, Problem>> candidates,
                      const Problem& problem, const Options& options) {
    if (candidates.empty())
        fail(Code::unsupported, "no {} kernel takes {}: the {} backend has no kernels of this family", backend,
             problem.describe(), backend);
    Choice<Kernel> choice;
    bool known = options.kernel.empty();
    std::string names;
    for (const auto& candidate : candidates) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", candidate.name);
        if (!options.kernel.empty() && options.kernel != candidate.name) continue;
        known = true;
        std::string refusal;
        try {
            choice.kernel = candidate.make(problem, options, refusal);
        } catch (const Error& error) {  // as where CUDA has no grid of so many blocks
            if (error.code() != Code::unsupported) throw;
            refusal = error.what();
        }
        choice.name = candidate.name;
        if (choice.kernel) return choice;
        choice.passed_over += fmt::format("{}: {}\n", candidate.name, refusal);
    }
    if (!known)
        fail(Code::invalid_argument, "kernel is \"{}\"; the {} backend accepts {}", options.kernel, backend, names);
    fail(Code::unsupported, "no {} kernel takes {}:\n{}", backend, problem.describe(), choice.passed_over);
}

}  // namespace flashscan
