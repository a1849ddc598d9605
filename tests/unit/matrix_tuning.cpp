// SPDX-License-Identifier: Apache-2.0
// How chains of matrices are cut in time, and which kernels walk them.
#include <gtest/gtest.h>

#include <array>

#include "cuda/matrix/prefix_tree.h"
#include "cuda/matrix/small_scan.h"
#include "cuda/matrix/tuning.h"

namespace {

using namespace flashscan::cuda;

constexpr int multiprocessors = 132, shared_bytes = 232448;

MatrixKernel kernel_of(int rows, int dim, int shared, bool on_tensor_cores, double step, double rate) {
    MatrixKernel kernel;
    kernel.threads = 256;
    kernel.shared_bytes = shared;
    kernel.rows = rows;
    kernel.dim = dim;
    kernel.on_tensor_cores = on_tensor_cores;
    kernel.drift = on_tensor_cores ? 0.5 : 0;
    kernel.step = step;
    kernel.rate = rate;
    return kernel;
}
// Small and large, plain and on tensor cores.
const std::array<MatrixKernel, 3> kernels{kernel_of(16, 16, 20000, false, 1, 60),
                                          kernel_of(64, 128, 100000, false, 5, 90),
                                          kernel_of(64, 128, 150000, true, 4, 200)};

TEST(MatrixTuning, LevelsCoverAllStepsWithKernelsThatHoldTheMatrices) {
    for (const int32_t dim : {5, 16, 33, 64})
        for (const int64_t chains : {1, 40, 3000})
            for (const int64_t steps : {1, 2, 7, 100, 4096, 65537, 1000003}) {
                MatrixShape shape;
                shape.dim = shape.rows = dim;
                shape.chains = shape.plan_chains = chains;
                shape.steps = steps;
                const MatrixPlan plan = plan_matrices(kernels, shape, multiprocessors, shared_bytes);
                ASSERT_FALSE(plan.levels.empty());
                int64_t left = steps;
                for (size_t i = 0; i < plan.levels.size(); ++i) {
                    const MatrixLevel& level = plan.levels[i];
                    EXPECT_EQ(level.steps, left);
                    EXPECT_GE(level.chunks * level.chunk_steps, level.steps);
                    EXPECT_LT((level.chunks - 1) * level.chunk_steps, level.steps);
                    ASSERT_NE(level.walk, nullptr);
                    EXPECT_GE(level.walk->dim, dim);
                    EXPECT_EQ(level.summarise == nullptr, level.chunks == 1);
                    EXPECT_TRUE(level.summarise == nullptr || level.summarise->dim >= dim);
                    EXPECT_EQ(level.chunks == 1, i + 1 == plan.levels.size());
                    left = level.chunks;
                }
            }
}

TEST(MatrixTuning, KernelsOfPackedSequencesDoNotDependOnTheirLength) {
    MatrixShape shape;
    shape.dim = shape.rows = 64;
    shape.chains = shape.plan_chains = 1;
    shape.cuttable = false;
    const auto kernel_of_steps = [&](int64_t steps) {
        shape.steps = steps;
        return plan_matrices(kernels, shape, multiprocessors, shared_bytes).levels.front().walk;
    };
    EXPECT_NE(kernel_of_steps(100), kernel_of_steps(1000003)) << "kernels that drift are for short chains";
    shape.any_steps = true;
    for (const int64_t steps : {1, 100, 4096, 1000003}) EXPECT_EQ(kernel_of_steps(steps), &kernels[1]) << steps;
}

TEST(MatrixTuning, ScansSmallMatricesInChunksThatABlockHolds) {
    MatrixKernel scan = kernel_of(16, 16, matrix_scan_shared_bytes(16, 1), false, 0.1, 0);
    scan.plain_only = scan.is_scan = true;
    const std::array<MatrixKernel, 2> with_scan{kernels[0], scan};
    MatrixShape shape;
    shape.dim = shape.rows = 16;
    shape.plain = true;
    for (const int64_t chains : {1, 40})
        for (const int64_t steps : {100, 1000, 8192, 30000, 1000003}) {
            shape.chains = shape.plan_chains = chains;
            shape.steps = steps;
            const MatrixLevel top = plan_matrices(with_scan, shape, multiprocessors, shared_bytes).levels.back();
            ASSERT_TRUE(top.walk->is_scan) << steps;
            EXPECT_EQ(top.summarise, nullptr);
            EXPECT_EQ(top.chunk_steps % matrix_scan_warps, 0);
            EXPECT_EQ(top.chunks, (top.steps + top.chunk_steps - 1) / top.chunk_steps);
            EXPECT_LE(top.chunks, matrix_scan_group * matrix_scan_group);
            EXPECT_LE(matrix_scan_shared_bytes(16, top.chunk_steps / matrix_scan_warps), shared_bytes);
        }
    shape.plain = false;
    EXPECT_FALSE(plan_matrices(with_scan, shape, multiprocessors, shared_bytes).levels.back().walk->is_scan);
}

TEST(MatrixTuning, TimeIsWholeWhereItMayNotBeCut) {
    MatrixShape shape;
    shape.dim = shape.rows = 16;
    shape.chains = shape.plan_chains = 1;
    shape.steps = 100000;
    shape.cuttable = false;
    EXPECT_EQ(plan_matrices(kernels, shape, multiprocessors, shared_bytes).levels.size(), 1U);
}

TEST(MatrixTuning, GivesLongChainsOfSmallMatricesNoTensorCores) {
    MatrixShape shape;
    shape.dim = shape.rows = 64;
    shape.chains = shape.plan_chains = 1;
    constexpr int64_t most = 48 * 64;
    for (const int64_t steps : {most, most + 1}) {
        shape.steps = steps;
        const MatrixLevel level = plan_matrices(kernels, shape, multiprocessors, shared_bytes).levels.front();
        EXPECT_EQ(level.walk->on_tensor_cores, steps == most);
    }
}

TEST(MatrixTuning, GivesMatricesNoTensorCoresWhereMultiplyAddsHaveASmallerKernel) {
    std::array<MatrixKernel, 3> walks = kernels;
    walks[2].drift = 0;
    walks[2].step = 0.5;
    walks[2].rate = 900;
    MatrixShape shape;
    for (const bool warpgroups : {false, true})
        for (const int32_t dim : {5, 16, 17, 128})
            for (const int64_t chains : {1, 3000})
                for (const int64_t steps : {1, 1000}) {
                    walks[2].by_warpgroups = shape.warpgroups = warpgroups;
                    shape.dim = shape.rows = dim;
                    shape.chains = shape.plan_chains = chains;
                    shape.steps = steps;
                    for (const MatrixLevel& level : plan_matrices(walks, shape, multiprocessors, shared_bytes).levels)
                        EXPECT_EQ(level.walk->on_tensor_cores, dim > 16) << dim;
                }
}

TEST(MatrixTuning, GivesKernelsOfPlainWalksNoOthers) {
    std::array<MatrixKernel, 2> walks{kernels[1], kernels[1]};
    walks[1].plain_only = true;
    walks[1].rate = 900;
    walks[1].step = 0.5;
    MatrixShape shape;
    shape.dim = shape.rows = 64;
    shape.chains = shape.plan_chains = 1;
    shape.steps = 1000;
    for (const bool plain : {false, true}) {
        shape.plain = plain;
        for (const MatrixLevel& level : plan_matrices(walks, shape, multiprocessors, shared_bytes).levels)
            EXPECT_EQ(level.walk->plain_only, plain);
    }
}

TEST(MatrixTuning, MultipliesSummariesAsATreeWhereMemoryAllows) {
    std::array<MatrixKernel, 3> walks{kernels[0], kernels[1], kernel_of(64, 128, 30000, true, 0.1, 900)};
    walks[2].is_tree = walks[2].plain_only = true;
    MatrixShape shape;
    shape.dim = shape.rows = 64;
    shape.chains = shape.plan_chains = 1;
    for (const int64_t steps : {3, 100, 1000, 3000})
        for (const bool plain : {false, true}) {
            shape.steps = steps;
            shape.plain = plain;
            const std::vector<MatrixLevel> levels = plan_matrices(walks, shape, multiprocessors, shared_bytes).levels;
            for (const MatrixLevel& level : levels) {
                EXPECT_TRUE(level.summarise == nullptr || !level.summarise->is_tree);
                EXPECT_EQ(level.walk->is_tree, plain && steps > 3 && &level == &levels.back());
            }
            if (!levels.back().walk->is_tree) continue;
            const int64_t summaries = levels.back().steps;
            EXPECT_LE(2 * summaries + MatrixTree(static_cast<int32_t>(summaries), false).products(), steps);
        }
}

TEST(MatrixTuning, TakesMatricesThatAKernelHolds) {
    EXPECT_TRUE(has_matrix_kernel(kernels, 128, shared_bytes));
    EXPECT_FALSE(has_matrix_kernel(kernels, 129, shared_bytes));
    EXPECT_FALSE(has_matrix_kernel(kernels, 128, 90000));
}

}  // namespace
