// SPDX-License-Identifier: Apache-2.0
// How networks of heads of one unit are cut in time, and when that pays: pure functions of the shape.
#include <gtest/gtest.h>

#include "core/rounding.h"
#include "cuda/rnn/diagonal_newton/tuning.h"

namespace {

using namespace flashscan;
using namespace flashscan::cuda;

constexpr int multiprocessors = 132, shared_bytes = 227 * 1024;

RnnProblem problem(Cell cell, Dtype dtype, int64_t batch, int64_t time, int64_t heads) {
    RnnProblem p;
    p.cell = cell;
    p.dtype = p.weight_dtype = dtype;
    p.batch = batch;
    p.time = time;
    p.heads = heads;
    p.head_dim = 1;
    return p;
}

TEST(RnnNewtonTuning, SegmentsFitTheDevice) {
    for (const Cell cell : {Cell::lstm, Cell::gru, Cell::elman, Cell::mgu})
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
            for (const int64_t batch : {1, 3, 40})
                for (const int64_t time : {1, 100, 5000})
                    for (const int64_t heads : {1, 33, 1024})
                        for (const bool clusters : {false, true}) {
                            const RnnProblem p = problem(cell, dtype, batch, time, heads);
                            const RnnNewtonShape s = choose_rnn_newton(p, multiprocessors, shared_bytes, clusters);
                            ASSERT_GT(s.warps, 0);
                            EXPECT_LE(s.warps, rnn_newton_warps);
                            EXPECT_LE(s.blocks, clusters ? rnn_newton_blocks : 1);
                            EXPECT_GE(s.steps, rnn_newton_least);
                            EXPECT_LE(s.steps, rnn_newton_steps);
                            EXPECT_EQ(s.steps % rnn_newton_fetched(p.counts().gates), 0);
                            EXPECT_LE(s.shared_bytes * (rnn_newton_warps / s.warps), shared_bytes);
                        }
}

bool pays(const RnnProblem& p) {
    return rnn_newton_pays(p, choose_rnn_newton(p, multiprocessors, shared_bytes, true), multiprocessors);
}
int segments(RnnProblem p) {
    p.training = true;
    return choose_rnn_newton_backward(p, multiprocessors);
}

TEST(RnnNewtonTuning, PaysForFewLongRows) {
    for (const Cell cell : {Cell::lstm, Cell::gru}) {
        EXPECT_TRUE(pays(problem(cell, Dtype::f32, 1, 65536, 256)));
        EXPECT_TRUE(pays(problem(cell, Dtype::bf16, 1, 2048, 1024)));
        EXPECT_FALSE(pays(problem(cell, Dtype::f32, 1, 32, 256)));
        EXPECT_FALSE(pays(problem(cell, Dtype::f32, 64, 4096, 1024)));
    }
    // Measured: 60 and 90 us step by step, 115 and 80.
    EXPECT_TRUE(pays(problem(Cell::gru, Dtype::f32, 8, 512, 1024)));
    EXPECT_FALSE(pays(problem(Cell::lstm, Dtype::f32, 8, 512, 1024)));
}

TEST(RnnNewtonTuning, BackwardIsCutWhereRowsAreLong) {
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 1, 65536, 256)), 132);
    EXPECT_EQ(segments(problem(Cell::lstm, Dtype::f32, 1, 640, 32)), 10);
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 1, 100, 256)), 1);
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 64, 4096, 1024)), 1);
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 0, 4096, 1024)), 1);
    RnnProblem clipped = problem(Cell::gru, Dtype::f32, 1, 65536, 256);
    clipped.recurrent_clip = 1;
    EXPECT_EQ(segments(clipped), 1);
}

// A plan then takes "diagonal_newton" for backward alone.
TEST(RnnNewtonTuning, BackwardIsCutWhereForwardDoesNotPay) {
    for (const RnnProblem& p :
         {problem(Cell::lstm, Dtype::f32, 8, 4096, 1024), problem(Cell::lstm, Dtype::f32, 1, 300, 20)}) {
        EXPECT_FALSE(pays(p));
        EXPECT_EQ(segments(p), 4);
    }
}

TEST(RnnNewtonTuning, SegmentsOfBackwardHaveAtMostSoManySteps) {
    EXPECT_EQ(segments(problem(Cell::lstm, Dtype::f32, 8, 4096, 1024)), 4);
    EXPECT_EQ(segments(problem(Cell::lstm, Dtype::f32, 8, 4097, 1024)), 5);
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 8, 65536, 1024)), 64);
    EXPECT_EQ(segments(problem(Cell::gru, Dtype::f32, 1, 1 << 20, 32)), 1024);
}

}  // namespace
