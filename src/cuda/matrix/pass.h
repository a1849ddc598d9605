// SPDX-License-Identifier: Apache-2.0
// A walk over chains of matrices as a plan settles it, and its launches: a reduce-then-scan over several levels. First
// the summaries of chunks are computed level by level, then a walk, a tree or a scan finishes the uppermost chain, then
// the walks of the lower levels follow, each from the carries that the level above found.
#pragma once

#include <string>
#include <vector>

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
    // Enqueues the launches. In `walk` everything is filled in but what concerns chunks.
    void run(const MatrixWalk& walk, char* scratch, void* stream) const;
    std::string describe() const;
    // The same walk for when all steps are wanted.
    MatrixPass of_all_steps(Workspace& workspace) const;

  private:
    // How a kernel of a level is launched.
    struct Launch {
        LaunchShape grid;
        int32_t row_tiles = 0;
    };
    // A level's launches and its places in scratch, settled with the plan.
    struct Level : MatrixLevel {
        Launch summaries, walks;
        ClearLaunch clear;          // of what the blocks of a scan exchange
        MatrixTree trees[2];        // without STATE_IN before the summaries, and with it
        LaunchShape tree_grids[2];  // of each
        int64_t num_counters = 0;   // of a tree
        size_t products = 0, sums = 0, carries = 0, counters = 0;
    };
    void settle(Workspace& workspace);
    void book(Level& level, Workspace& workspace) const;
    Launch launch_of(const MatrixLevel& level, const MatrixKernel& kernel, MatrixWork work) const;
    static void launch_walk(MatrixWalk walk, const MatrixKernel& kernel, const Launch& how, MatrixWork work,
                            void* stream);
    static void launch_tree(const MatrixWalk& walk, const Level& level, void* stream);
    MatrixWalk above(const MatrixWalk& walk) const;
    static void hand_end_over(MatrixWalk& walk, MatrixWalk& top);

    MatrixShape shape_;
    Dtype numbers_{};
    bool last_only_ = false, overlaps_ = false;
    std::vector<Level> levels_;
};

}  // namespace flashscan::cuda
