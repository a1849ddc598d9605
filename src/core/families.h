// SPDX-License-Identifier: Apache-2.0
// Each family of problems adds a class of static functions to a plan, which FamilyPlan in plan.cpp takes as its
// template parameter.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"
#include "core/cookie.h"
#include "core/error.h"

namespace flashscan {

// Refuses a communicator for a family whose sequences have to lie on one rank.
[[noreturn]] inline void refuse_ranks(const std::string& problem, const char* reason) {
    fail(Code::unsupported, "communicator is given to a plan for {}; {}", problem, reason);
}

inline void refuse_pool(const Sequences& problem) {
    if (problem.pooled())
        fail(Code::unsupported, "state_pool is {} in a plan with a communicator, which takes no pools; accepted is 0",
             problem.state_pool);
}

struct LinearFamily {
    using Problem = LinearProblem;
    using Kernel = LinearKernel;
    static auto candidates(const Backend& backend) { return backend.linear_candidates(); }
    static void check_pass(const Problem&, Pass) {}
    static void check_ranks(const Problem& problem) { refuse_pool(problem); }
    static std::string describe_ranks(const Problem& problem) { return problem.describe_ranks(); }
    static std::vector<ArgumentSpec> arguments(const Problem& problem, const Kernel& kernel, Pass pass,
                                               bool caller_scratch) {
        return linear_arguments(problem, pass, kernel.scratch_bytes(pass), caller_scratch);
    }
    static LinearBuffers buffers(const Problem& problem, Pass pass, const Pointers& found) {
        return linear_buffers(problem, pass, found);
    }
    static std::string memory(const Problem&, const Kernel&) { return ""; }
};

struct RnnFamily {
    using Problem = RnnProblem;
    using Kernel = RnnKernel;
    static auto candidates(const Backend& backend) { return backend.rnn_candidates(); }
    static void check_ranks(const Problem& problem) {
        refuse_ranks(
            problem.describe(),
            "what steps do to the state of a network cannot be summarised, so each rank would only wait for the "
            "one before it");
    }
    static std::string describe_ranks(const Problem&) { return ""; }
    static void check_pass(const Problem& problem, Pass pass) {
        if (pass == Pass::backward && !problem.training)
            fail(Code::invalid_argument, "this plan has no backward pass: its flags lack RNN_FLAG_TRAINING");
    }
    static std::vector<ArgumentSpec> arguments(const Problem& problem, const Kernel& kernel, Pass pass,
                                               bool caller_scratch) {
        if (pass == Pass::backward && !problem.training) return {};
        return rnn_arguments(problem, pass, reserve_bytes(problem, kernel), kernel.scratch_bytes(pass), caller_scratch);
    }
    // An empty problem has no RESERVE, not even a cookie.
    static size_t reserve_bytes(const Problem& problem, const Kernel& kernel) {
        return problem.training && !problem.empty() ? Cookie::bytes + kernel.reserve_bytes() : 0;
    }
    static RnnBuffers buffers(const Problem&, Pass, const Pointers& found) { return rnn_buffers(found); }
    static std::string memory(const Problem& problem, const Kernel& kernel) {
        return problem.training ? fmt::format("reserve {} bytes\n", reserve_bytes(problem, kernel)) : "";
    }
};

struct OperatorFamily {
    using Problem = OperatorProblem;
    using Kernel = OperatorKernel;
    static auto candidates(const Backend& backend) { return backend.operator_candidates(); }
    static void check_ranks(const Problem& problem) {
        if (problem.is_custom() && problem.packed())
            refuse_ranks(problem.describe(), "custom operators, whose identity is not known, take none with sequences");
    }
    static std::string describe_ranks(const Problem& problem) { return problem.describe_ranks(); }
    static void check_pass(const Problem& problem, Pass pass) {
        if (pass != Pass::backward || problem.differentiable()) return;
        if (problem.is_custom())
            fail(Code::invalid_argument, "this plan has no backward pass: its custom operator has no adjoint");
        fail(Code::invalid_argument, "this plan has no backward pass: dtype is {}, and integers have no gradients",
             name_of(problem.dtype));
    }
    static std::vector<ArgumentSpec> arguments(const Problem& problem, const Kernel& kernel, Pass pass,
                                               bool caller_scratch) {
        if (pass == Pass::backward && !problem.differentiable()) return {};
        return operator_arguments(problem, pass, kernel.scratch_bytes(pass), caller_scratch);
    }
    static OperatorBuffers buffers(const Problem& problem, Pass pass, const Pointers& found) {
        return operator_buffers(problem, pass, found);
    }
    static std::string memory(const Problem&, const Kernel&) { return ""; }
};

struct GatedFamily {
    using Problem = GatedProblem;
    using Kernel = GatedKernel;
    static auto candidates(const Backend& backend) { return backend.gated_candidates(); }
    static void check_ranks(const Problem& problem) { refuse_pool(problem); }
    static std::string describe_ranks(const Problem& problem) { return problem.describe_ranks(); }
    static void check_pass(const Problem&, Pass) {}
    static std::vector<ArgumentSpec> arguments(const Problem& problem, const Kernel& kernel, Pass pass,
                                               bool caller_scratch) {
        return gated_arguments(problem, pass, reserve_bytes(problem), kernel.scratch_bytes(pass), caller_scratch);
    }
    static size_t reserve_bytes(const Problem& problem) {
        if (!problem.hides_state() || problem.empty()) return 0;
        return static_cast<size_t>(problem.element_count() * size_of(problem.dtype) + Cookie::bytes);
    }
    static GatedBuffers buffers(const Problem& problem, Pass pass, const Pointers& found) {
        return gated_buffers(problem, pass, found);
    }
    static std::string memory(const Problem& problem, const Kernel&) {
        return problem.hides_state() ? fmt::format("reserve {} bytes\n", reserve_bytes(problem)) : "";
    }
};

struct SelectiveFamily {
    using Problem = SelectiveProblem;
    using Kernel = SelectiveKernel;
    static auto candidates(const Backend& backend) { return backend.selective_candidates(); }
    static void check_ranks(const Problem& problem) { refuse_pool(problem); }
    static std::string describe_ranks(const Problem& problem) { return problem.describe_ranks(); }
    static void check_pass(const Problem&, Pass) {}
    static std::vector<ArgumentSpec> arguments(const Problem& problem, const Kernel& kernel, Pass pass,
                                               bool caller_scratch) {
        return selective_arguments(problem, pass, kernel.scratch_bytes(pass), caller_scratch);
    }
    static SelectiveBuffers buffers(const Problem& problem, Pass pass, const Pointers& found) {
        return selective_buffers(problem, pass, found);
    }
    static std::string memory(const Problem&, const Kernel&) { return ""; }
};

}  // namespace flashscan
