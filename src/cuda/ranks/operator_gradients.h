// SPDX-License-Identifier: Apache-2.0
// Finds the gradient of the states after a rank's own steps of an operator, from what the ranks behind it tell.
// operators.cpp has the formulas.
#pragma once

#include <memory>

#include "cuda/ranks/operator_messages.h"
#include "cuda/ranks/operator_states.h"

namespace flashscan::cuda {

class OperatorGradients {
  public:
    // `messages` and `states` outlive this. `options` are those of one GPU.
    OperatorGradients(const OperatorProblem& problem, const Options& options, MakeOperator make, MakeLinear make_linear,
                      const OperatorMessages& messages, const OperatorStates& states);

    // Makes the kernels that go back through ranks with custom elements, once the messages are settled.
    void settle();
    // The scratch that the largest of these kernels needs.
    size_t scratch_bytes() const;

    // Finds the gradient of a reduction's states after all steps, on the last rank; null on the others.
    const void* gradient_of_all(const OperatorCall& call) const;
    // All-gathers the gradients that the ranks' own steps leave for the states before them, by backward of `inner` with
    // the buffers `own`; the first rank's is not needed.
    void gather_locals(const OperatorCall& call, const OperatorKernel& inner, const OperatorBuffers& own) const;
    // All-gathers the slopes of the ranks' steps. The last rank's multiply nothing and are ones.
    void gather_slopes(const OperatorCall& call, const OperatorBuffers& own) const;
    // Finds the gradient of the states after the own steps; not for the last rank.
    const void* find_gradient(const OperatorCall& call) const;

  private:
    const void* join_matrices(const OperatorCall& call) const;
    const void* pull_back(const OperatorCall& call) const;

    OperatorProblem p_;
    const OperatorMessages& messages_;
    const OperatorStates& states_;
    const void* join_kernel_;
    RankJoinParams join_;  // without a call's pointers
    LaunchShape join_shape_;
    std::unique_ptr<OperatorKernel>
        outputs_,      // of a reduction, on its last rank: adds the gradients of OUTPUT that all ranks are given
        ones_,         // of numbers with slopes: stores ones, by a product of no steps
        sums_behind_,  // of sums: adds the local gradients of the ranks behind
        with_own_,     // of custom elements: reduces the totals of the ranks up to and with this one
        through_;      // of custom elements: scans the totals of the ranks between this one and the last
    std::unique_ptr<LinearKernel> behind_;  // of numbers with slopes: takes a gradient back through the ranks behind
};

}  // namespace flashscan::cuda
