// SPDX-License-Identifier: Apache-2.0
#include "cuda/candidates.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "core/planner.h"
#include "cuda/gated/candidates.h"
#include "cuda/launch/device_code.h"
#include "cuda/linear/candidates.h"
#include "cuda/matrix/candidates.h"
#include "cuda/operators/candidates.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/slices.h"
#include "cuda/rnn/candidates.h"
#include "cuda/selective/candidates.h"

namespace flashscan::cuda {
namespace {

// Kernels on one GPU.
std::unique_ptr<LinearKernel> make_linear_alone(const LinearProblem& problem, const Options& options) {
    return choose<LinearKernel, LinearProblem>("cuda", linear_candidates, problem, options).kernel;
}
std::unique_ptr<GatedKernel> make_gated_alone(const GatedProblem& problem, const Options& options) {
    return choose<GatedKernel, GatedProblem>("cuda", gated_candidates, problem, options).kernel;
}
std::unique_ptr<SelectiveKernel> make_selective_alone(const SelectiveProblem& problem, const Options& options) {
    return choose<SummarisedSelective, SelectiveProblem>("cuda", selective_candidates, problem, options).kernel;
}
std::unique_ptr<OperatorKernel> make_operator_alone(const OperatorProblem& problem, const Options& options) {
    return choose("cuda", operator_candidates_over_ranks(), problem, options).kernel;
}

// What runs on a rank, made of a kernel on one GPU; null with a refusal where the family does not run over these ranks.
std::unique_ptr<LinearKernel> on_rank(const LinearProblem& problem, const Options& options,
                                      std::unique_ptr<LinearKernel> kernel, std::string& /*refusal*/) {
    return make_linear_ranks(problem, options, std::move(kernel), make_linear_alone);
}
std::unique_ptr<GatedKernel> on_rank(const GatedProblem& problem, const Options& options,
                                     std::unique_ptr<GatedKernel> kernel, std::string& refusal) {
    if (const char* why = why_no_gated_ranks(problem, options)) {
        refusal = why;
        return nullptr;
    }
    return make_gated_ranks(problem, options, std::move(kernel), make_gated_alone);
}
std::unique_ptr<SelectiveKernel> on_rank(const SelectiveProblem& problem, const Options& options,
                                         std::unique_ptr<SummarisedSelective> kernel, std::string& /*refusal*/) {
    return make_selective_ranks(problem, options, std::move(kernel), make_selective_alone);
}
std::unique_ptr<OperatorKernel> on_rank(const OperatorProblem& problem, const Options& options,
                                        std::unique_ptr<OperatorKernel> kernel, std::string& /*refusal*/) {
    return make_operator_ranks(problem, options, std::move(kernel), make_operator_alone, make_linear_alone,
                               is_tiny(problem));
}
// A candidate's `make`, over ranks where the options have a communicator. The plan copies states with strides, so that
// what runs on a rank finds them dense.
template <typename Kernel, typename Problem, auto make>
std::unique_ptr<Kernel> over_ranks(const Problem& problem, const Options& options, std::string& refusal) {
    if (!options.communicator) return make(problem, options, refusal);
    const Problem dense = with_dense_states(problem);
    auto kernel = make(dense, options, refusal);
    return kernel ? on_rank(dense, options, std::move(kernel), refusal) : nullptr;
}
template <typename Kernel, typename Problem, const auto& candidates>
constexpr auto over_ranks_of = []<size_t... i>(std::index_sequence<i...>) {
    return std::array{
        Candidate<Kernel, Problem>{candidates[i].name, over_ranks<Kernel, Problem, candidates[i].make>}...};
}
(std::make_index_sequence<std::size(candidates)>());

std::unique_ptr<OperatorKernel> batched_alone(const OperatorProblem& problem, const Options& options,
                                              std::string& refusal) {
    auto kernel = make_custom_batched(problem, options, refusal);
    if (!options.communicator || !kernel) return kernel;
    refusal = "takes no communicator, since a callback that fails on one rank would leave the others waiting";
    return nullptr;
}

template <auto make, Compiled kernel>
std::unique_ptr<RnnKernel> where_compiled(const RnnProblem& problem, const Options& options, std::string& refusal) {
    refusal = code_refusal_of(kernel, options.device);
    return refusal.empty() ? make(problem, options, refusal) : nullptr;
}
// Affine maps are in a layer without PTX.
std::unique_ptr<OperatorKernel> make_tiny(const OperatorProblem& problem, const Options& options,
                                          std::string& refusal) {
    if (problem.is_affine()) refusal = code_refusal_of(Compiled::to_machine_code, options.device);
    return refusal.empty() ? make_operator_tiny(problem, options, refusal) : nullptr;
}

constexpr RnnCandidate rnn[] = {
    {"diagonal_newton", where_compiled<make_rnn_diagonal_newton, Compiled::to_machine_code>},
    {"diagonal", make_rnn_diagonal},
    {"decode", make_rnn_decode},
    {"fused", where_compiled<make_rnn_fused, Compiled::for_clusters>},
    {"persistent", make_rnn_persistent},
    {"alternating", make_rnn_alternating},
};

template <auto make>
constexpr auto operator_over_ranks = over_ranks<OperatorKernel, OperatorProblem, make>;
constexpr OperatorCandidate operators[] = {
    {"numbers", operator_over_ranks<make_operator_numbers>},   {"tiny", operator_over_ranks<make_tiny>},
    {"matrices", operator_over_ranks<make_operator_matrices>}, {"compiled", operator_over_ranks<make_custom_scan>},
    {"compiled_tree", operator_over_ranks<make_custom_tree>},  {"batched", batched_alone},
};

}  // namespace

std::span<const LinearCandidate> linear_candidates_over_ranks() {
    return over_ranks_of<LinearKernel, LinearProblem, linear_candidates>;
}
std::span<const RnnCandidate> rnn_candidates() { return rnn; }
std::span<const GatedCandidate> gated_candidates_over_ranks() {
    return over_ranks_of<GatedKernel, GatedProblem, gated_candidates>;
}
std::span<const SelectiveCandidate> selective_candidates_over_ranks() {
    return over_ranks_of<SelectiveKernel, SelectiveProblem, selective_candidates>;
}
std::span<const OperatorCandidate> operator_candidates_over_ranks() { return operators; }

}  // namespace flashscan::cuda
