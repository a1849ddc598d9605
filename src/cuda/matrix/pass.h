// SPDX-License-Identifier: Apache-2.0
// A walk over chains of matrices as a plan settles it, and its launches: a reduce-then-scan over several levels. First
// the summaries of pieces are computed level by level, then a walk, a tree or a scan finishes the uppermost chain, then
// the walks of the lower levels follow, each from the carries that the level above found.
#pragma once

#include <array>
#include <string>

#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/matrix/prefix_tree.h"
#include "cuda/matrix/tuning.h"

namespace flashscan::cuda {

class MatrixPass {
  public:
    MatrixPass() = default;
    // Books its memory in `workspace`. With `last_only` only r after the last step is wanted; it has the bits of a
    // whole walk. Fills in `refusal` where the walk cannot be launched.
    MatrixPass(const MatrixShape& shape, Dtype numbers, bool last_only, int device, Workspace& workspace,
               std::string& refusal);
    // Enqueues the launches. In `walk` everything is filled in but what concerns pieces.
    void run(const MatrixWalk& walk, char* scratch, void* stream) const;
    std::string describe() const;
    // The same walk for when all steps are wanted.
    MatrixPass of_all_steps(Workspace& workspace) const;

  private:
    struct Buffers {
        size_t products = 0, sums = 0, carries = 0, counters = 0;
    };
    void book(Workspace& workspace);
    void launch_walk(MatrixWalk walk, const MatrixKernel& kernel, MatrixWork work, void* stream) const;
    MatrixTree tree_of(const MatrixLevel& level, bool has_start) const;
    Extent tree_blocks(const MatrixLevel& level, const MatrixTree& tree) const;
    void launch_tree(const MatrixWalk& walk, const MatrixLevel& level, void* stream) const;
    MatrixWalk above(const MatrixWalk& walk, const MatrixLevel& level) const;
    static void hand_end_over(MatrixWalk& walk, MatrixWalk& top);

    MatrixShape shape_;
    Dtype numbers_{};
    bool last_only_ = false, overlaps_ = false;
    MatrixPlan plan_;
    std::array<Buffers, most_matrix_levels> buffers_;
};

}  // namespace flashscan::cuda
