// SPDX-License-Identifier: Apache-2.0
// Finds the states that enter a rank's own steps of an operator: from the totals of the ranks before it or, where
// OUTPUT holds states, from the last ones there (edges).
#pragma once

#include <memory>

#include "cuda/launch/launch.h"
#include "cuda/ranks/matrices_params.h"
#include "cuda/ranks/operator_messages.h"
#include "cuda/ranks/ranks.h"

namespace flashscan::cuda {

class OperatorStates {
  public:
    // `messages` outlives this. `options` are those of one GPU.
    OperatorStates(const OperatorProblem& problem, const Options& options, MakeOperator make,
                   const OperatorMessages& messages);

    // Makes the kernels that join totals and settles launches, once the messages are settled.
    void settle();
    // The scratch that the largest of these kernels needs.
    size_t scratch_bytes() const;
    // The reduction of the own steps.
    const OperatorKernel& total() const { return *total_; }
    // Makes what reduces or scans the elements that `steps` ranks have sent.
    std::unique_ptr<OperatorKernel> over_ranks(OperatorMode mode, int64_t steps) const;

    // All-gathers the totals of the ranks' steps; the last rank's is needed in forward of a reduction alone. Backward
    // of affine maps may lack INPUT, which only gradients of matrices need: the rank's total and such gradients on
    // other ranks are then NaN.
    void gather_totals(const OperatorCall& call, Pass pass) const;
    // All-gathers the products of affine maps' matrices.
    void gather_products(const OperatorCall& call, Pass pass) const;
    // Finds the states after the first `count` ranks, by a reduction of the totals of all but the first of them.
    void join_totals(const OperatorCall& call, const OperatorKernel& kernel, int32_t count, void* to) const;
    // The same after all ranks, of a reduction.
    void join_all(const OperatorCall& call, void* to) const { join_totals(call, *all_, messages_.ranks().size, to); }
    // Finds the states that enter the own steps, from gathered totals and products.
    const void* find_carry(const OperatorCall& call) const;
    // Finds them from the edges of OUTPUT, which it gathers.
    const void* find_in_output(const OperatorCall& call) const;

  private:
    // Whether another rank needs what the own steps do. The last rank's count in the result of a reduction alone.
    bool counts(Pass pass) const;
    void settle_edges();
    void launch_edge(const OperatorCall& call, void* to, uint8_t* marks, bool last_step) const;

    OperatorProblem p_;
    Options options_;
    MakeOperator make_;
    const OperatorMessages& messages_;
    RankMatrixKernels kernels_;
    RankEdgeParams edge_;  // this and the next one without a call's pointers
    RankEdgesParams edges_;
    LaunchShape number_threads_;             // a thread for each number of all states
    std::unique_ptr<OperatorKernel> total_,  // reduces the own steps
        product_,                            // of affine maps: multiplies the matrices of the own steps
        before_,                             // reduces the totals of the ranks before this one
        all_;                                // of a reduction: reduces the totals of all ranks
};

}  // namespace flashscan::cuda
