// SPDX-License-Identifier: Apache-2.0
// Which team of blocks runs a recurrent network: a pure function of the shape and of the table of kernels.
#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "cuda/rnn/decode/tuning.h"
#include "cuda/rnn/fused/tuning.h"

namespace {

using namespace flashscan::cuda;

constexpr int multiprocessors = 132;

RnnFusedShape shape_of(Team kind, int head_dim, int units, int rows) {
    RnnFusedShape shape;
    shape.kind = kind;
    shape.head_dim = head_dim;
    shape.forward.units = shape.backward.units = units;
    shape.forward.rows = shape.backward.rows = rows;
    return shape;
}

const std::vector<RnnFusedShape> shapes{shape_of(Team::block, 64, 64, 4),    shape_of(Team::block, 64, 64, 8),
                                        shape_of(Team::cluster, 128, 32, 8), shape_of(Team::cluster, 512, 32, 8),
                                        shape_of(Team::grid, 512, 16, 8),    shape_of(Team::grid, 512, 16, 32),
                                        shape_of(Team::grid, 1024, 16, 8),   shape_of(Team::grid, 1024, 16, 32)};

RnnTeams choose(int64_t head_dim, int64_t heads, int64_t rows, bool batch_invariant = false) {
    return choose_teams(shapes, flashscan::Pass::forward, head_dim, heads, rows, multiprocessors, batch_invariant);
}

TEST(RnnTuning, CoversEveryUnitAndRowAndFitsTheDevice) {
    for (const int64_t head_dim : {1, 31, 64, 65, 128, 129, 500, 512, 513, 768, 1024})
        for (const int64_t heads : {1, 3, 12, 1000})
            for (const int64_t rows : {1, 4, 5, 8, 9, 33, 64, 1000})
                for (const bool batch_invariant : {false, true}) {
                    const RnnTeams t = choose(head_dim, heads, rows, batch_invariant);
                    ASSERT_NE(t.kernel, nullptr);
                    EXPECT_GE(t.blocks * t.kernel->units, head_dim);
                    EXPECT_LT((t.blocks - 1) * t.kernel->units, head_dim);
                    EXPECT_GE(t.tiles * t.kernel->rows, rows);
                    EXPECT_LT((t.tiles - 1) * t.kernel->rows, rows);
                    EXPECT_EQ(t.jobs, heads * t.tiles);
                    EXPECT_GE(t.teams, 1);
                    EXPECT_LE(t.teams, t.jobs);
                    EXPECT_LE(t.teams * t.blocks, multiprocessors);
                    EXPECT_GE(t.waves() * t.teams, t.jobs);
                    EXPECT_LT((t.waves() - 1) * t.teams, t.jobs);
                }
}

TEST(RnnTuning, TakesTheSmallestHeadThatHolds) {
    EXPECT_EQ(choose(64, 1, 1024).kernel, &shapes[1].forward);
    EXPECT_EQ(choose(65, 1, 16).kernel, &shapes[2].forward);
    EXPECT_EQ(choose(129, 1, 16).kernel, &shapes[3].forward);
    EXPECT_EQ(choose(768, 1, 16).kernel, &shapes[6].forward);
}

TEST(RnnTuning, ChoosesEachPassByItsOwnKernels) {
    const RnnTeams t = choose_teams(shapes, flashscan::Pass::backward, 768, 1, 16, multiprocessors, false);
    EXPECT_EQ(t.kernel, &shapes[6].backward);
}

// Whether products are expected to be faster for an LSTM of one head.
bool products_are_faster(std::span<const RnnFusedShape> of, int planes, int64_t head_dim, int64_t rows, bool tf32) {
    flashscan::RnnProblem p;
    p.dtype = planes == 1 ? flashscan::Dtype::bf16 : flashscan::Dtype::f32;
    p.cell = flashscan::Cell::lstm;
    p.batch = rows, p.heads = 1, p.head_dim = head_dim;
    p.allow_tf32 = tf32;
    constexpr auto forward = flashscan::Pass::forward;
    RnnTeams t = choose_teams(of, forward, head_dim, 1, rows, multiprocessors, false);
    RnnFusedKernel kernel = *t.kernel;
    kernel.depth = t.blocks * kernel.units, kernel.planes = planes;
    t.kernel = &kernel;
    return alternating_step_us(p, forward) < fused_step_us(t, forward);
}

// On an H200 products are faster for 768 units from 128 rows on, and never for the smallest heads of a small batch.
TEST(RnnTuning, KnowsWhenProductsAreFaster) {
    EXPECT_FALSE(products_are_faster(shapes, 1, 64, 1024, false));
    EXPECT_FALSE(products_are_faster(shapes, 1, 768, 64, false));
    EXPECT_TRUE(products_are_faster(shapes, 1, 768, 256, false));
}

// Products of f32 are slow, those of tf32 are not.
TEST(RnnTuning, KnowsWhenProductsInTf32AreFaster) {
    const std::vector<RnnFusedShape> wide{shape_of(Team::grid, 512, 8, 8), shape_of(Team::grid, 768, 8, 16),
                                          shape_of(Team::grid, 1024, 8, 16)};
    for (const auto& [head_dim, rows] : {std::pair{1024, 64}, {1024, 128}, {768, 256}}) {
        EXPECT_FALSE(products_are_faster(wide, 3, head_dim, rows, false));
        EXPECT_TRUE(products_are_faster(wide, 3, head_dim, rows, true));
    }
    EXPECT_FALSE(products_are_faster(wide, 3, 512, 16, true));
    EXPECT_FALSE(products_are_faster(wide, 3, 1024, 16, true));
}

RnnStepShape step_of(int64_t rows, int64_t heads, int64_t head_dim, flashscan::Dtype dtype) {
    flashscan::RnnProblem p;
    p.dtype = p.weight_dtype = dtype;
    p.cell = flashscan::Cell::lstm;
    p.batch = rows, p.time = 1, p.heads = heads, p.head_dim = head_dim;
    return choose_rnn_step(p, multiprocessors, 232448);
}

// Blocks of one step have every unit and every row, and run at once.
TEST(RnnTuning, OneStepFitsTheDevice) {
    for (const int64_t rows : {1, 2, 4, 5, 16})
        for (const auto& [heads, head_dim] : {std::pair{1, 7}, {1, 768}, {1, 1024}, {12, 64}, {40, 5}, {3, 300}}) {
            const RnnStepShape s = step_of(rows, heads, head_dim, flashscan::Dtype::bf16);
            ASSERT_GT(s.blocks, 0) << rows << " " << heads << " " << head_dim;
            EXPECT_LE(s.blocks, multiprocessors);
            EXPECT_GE(s.blocks * s.units, heads * head_dim);
            EXPECT_GE(s.tiles * rnn_step_rows, rows);
            EXPECT_LE(s.units * s.tiles, rnn_step_warps);
            EXPECT_LT(s.weight_bytes, s.shared_bytes);
            const bool vectors = head_dim % 8 == 0 && heads * head_dim <= 1024;
            const bool few = rows == 1 || (rows <= 4 && (head_dim == 64 || (rows == 2 && head_dim == 768)));
            EXPECT_EQ(s.way, !vectors ? RnnStepWay::shared
                             : few    ? RnnStepWay::direct
                                      : RnnStepWay::matrix)
                << rows << " " << heads << " " << head_dim;
            if (s.way != RnnStepWay::matrix) continue;
            EXPECT_EQ(head_dim % s.units, 0);
            EXPECT_LE(s.units * 4, rnn_step_matrix_rows);
            EXPECT_LE(s.matrix_threads, 32 * rnn_step_matrix_warps);
            EXPECT_GE(s.matrix_threads, s.units * rnn_step_most_rows);
            EXPECT_GE(s.matrix_threads / 32 * rnn_step_matrix_pieces * rnn_step_matrix_depth, head_dim);
        }
    for (const int64_t rows : {1, 4, 12})  // more heads than multiprocessors
        for (const int64_t heads : {140, 200, 256})
            for (const int64_t head_dim : {8, 16, 24}) {
                const RnnStepShape s = step_of(rows, heads, head_dim, flashscan::Dtype::bf16);
                EXPECT_TRUE(s.blocks == 0 || s.blocks <= multiprocessors) << rows << " " << heads << " " << head_dim;
            }
    const auto way = [](auto... shape) { return step_of(shape...).way; };
    EXPECT_EQ(way(1, 2, 768, flashscan::Dtype::bf16), RnnStepWay::shared);   // more warps than registers allow
    EXPECT_EQ(way(1, 1, 1032, flashscan::Dtype::bf16), RnnStepWay::shared);  // more numbers of a row of R
    EXPECT_EQ(way(16, 1, 256, flashscan::Dtype::f32), RnnStepWay::shared);   // few products, of which each is three
    EXPECT_EQ(way(5, 1, 512, flashscan::Dtype::f32), RnnStepWay::matrix);
    EXPECT_EQ(way(16, 1, 768, flashscan::Dtype::f32), RnnStepWay::matrix);
    EXPECT_EQ(way(8, 1, 1024, flashscan::Dtype::f32), RnnStepWay::matrix);
    EXPECT_EQ(way(4, 1, 768, flashscan::Dtype::f32), RnnStepWay::direct);
    EXPECT_EQ(way(4, 1, 1000, flashscan::Dtype::bf16), RnnStepWay::matrix);
    EXPECT_EQ(way(4, 1, 904, flashscan::Dtype::bf16), RnnStepWay::matrix);
    EXPECT_EQ(step_of(16, 1, 2048, flashscan::Dtype::bf16).blocks, 0);  // more warps than the blocks have
    EXPECT_EQ(step_of(1, 1, 2048, flashscan::Dtype::f32).blocks, 0);    // more bytes of R
}

TEST(RnnTuning, HoldsNoHeadThatIsTooLarge) {
    const auto kernel = [](std::span<const RnnFusedShape> of, int64_t head_dim, int device) {
        return choose_teams(of, flashscan::Pass::forward, head_dim, 1, 16, device, false).kernel;
    };
    EXPECT_EQ(kernel(shapes, 1025, multiprocessors), nullptr);
    EXPECT_EQ(kernel({}, 1, multiprocessors), nullptr);
    EXPECT_NE(kernel(shapes, 1024, 64), nullptr);
    EXPECT_EQ(kernel(shapes, 1024, 63), nullptr);
}

TEST(RnnTuning, SplitsRowsWhileTeamsAreFree) {
    EXPECT_EQ(choose(64, 1, 16).kernel->rows, 4);
    EXPECT_EQ(choose(64, 1, 132 * 8).kernel->rows, 8);
    EXPECT_EQ(choose(1024, 1, 16).kernel->rows, 8);
    EXPECT_EQ(choose(1024, 1, 64).kernel->rows, 32);
}

TEST(RnnTuning, PrefersTheFirstOfEqualCost) {
    const RnnTeams t = choose(512, 1, 8);
    EXPECT_EQ(t.kind, Team::cluster);
    EXPECT_EQ(t.blocks, 16);
}

TEST(RnnTuning, BatchInvariantTeamsDoNotDependOnRows) {
    for (const int64_t head_dim : {64, 100, 512, 1024}) {
        const RnnFusedKernel* const one = choose(head_dim, 1, 1, true).kernel;
        for (const int64_t rows : {2, 9, 64, 10000}) EXPECT_EQ(choose(head_dim, 3, rows, true).kernel, one);
    }
}

}  // namespace
