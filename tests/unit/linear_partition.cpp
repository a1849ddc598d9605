// SPDX-License-Identifier: Apache-2.0
// How the CPU backend cuts linear problems: a pure function of the problem and the number of threads.
#include "cpu/linear_partition.h"

#include <gtest/gtest.h>

namespace {

using namespace flashscan;
using namespace flashscan::cpu;

LinearProblem problem(Dtype dtype, Layout layout, int64_t batch, int64_t time, int64_t channels,
                      uint32_t broadcast = 0) {
    LinearProblem p;
    p.dtype = p.gate_dtype = dtype;
    p.layout = layout;
    p.batch = batch;
    p.time = time;
    p.channels = channels;
    p.gate_broadcast = broadcast;
    validate(p);
    return p;
}

std::vector<LinearProblem> problems() {
    std::vector<LinearProblem> list;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64, Dtype::c64})
        for (const Layout layout : {Layout::btc, Layout::bct})
            for (const uint32_t broadcast : {0U, 1U, 2U, 4U, 7U})
                for (const auto& [b, t, c] :
                     {std::tuple{1, 1, 1}, {1, 100000, 1}, {1, 70000, 16}, {3, 257, 100}, {8, 4096, 2500}})
                    list.push_back(problem(dtype, layout, b, t, c, broadcast));
    return list;
}

TEST(LinearPartition, CoversEveryRowAndChannel) {
    for (const LinearProblem& p : problems())
        for (const Pass pass : {Pass::forward, Pass::backward})
            for (const int threads : {1, 2, 7, 64}) {
                const LinearPartition q = partition(p, pass, false, false, threads);
                EXPECT_GE(q.blocks * q.block_channels, p.channels) << p.describe();
                EXPECT_LT((q.blocks - 1) * q.block_channels, p.channels) << p.describe();
                EXPECT_GE(q.groups * q.group_rows, q.rows) << p.describe();
                EXPECT_LT((q.groups - 1) * q.group_rows, q.rows) << p.describe();
            }
}

TEST(LinearPartition, WhatChangesBitsDoesNotFollowThreads) {
    for (const LinearProblem& p : problems())
        for (const bool invariant : {false, true}) {
            const LinearPartition one = partition(p, Pass::backward, false, invariant, 1);
            for (const int threads : {2, 7, 64})
                for (const bool chunked : {false, true}) {
                    const LinearPartition q = partition(p, Pass::backward, chunked, invariant, threads);
                    EXPECT_EQ(q.chunk, one.chunk) << p.describe();
                    if (chunked) continue;
                    EXPECT_EQ(q.slots, one.slots) << p.describe();
                    if (q.sum_channels) {
                        EXPECT_EQ(q.block_channels, one.block_channels) << p.describe();
                    }
                }
        }
}

TEST(LinearPartition, ScratchKeepsWithinItsPromise) {
    for (const LinearProblem& p : problems())
        for (const int threads : {1, 2, 64, 1024})
            for (const bool chunked : {false, true}) {
                const LinearPartition q = partition(p, Pass::backward, chunked, false, threads);
                if (chunked && !q.few_blocks) continue;  // no plan has it
                const int64_t input = p.batch * p.time * p.channels * size_of(p.dtype) * 2;
                EXPECT_LE(q.scratch_bytes, std::max<int64_t>(input / 100, int64_t{4} << 20)) << p.describe();
            }
}

TEST(LinearPartition, FewLongRowsAreCutInTime) {
    const LinearPartition q = partition(problem(Dtype::f32, Layout::btc, 1, 1 << 20, 1), Pass::forward, true, false, 2);
    EXPECT_TRUE(q.chained);
    EXPECT_TRUE(q.variant.along_time);
    EXPECT_EQ(q.workers, 2);
    EXPECT_GE(int64_t{1} << 20, 2 * q.chunk);
    EXPECT_FALSE(partition(problem(Dtype::f32, Layout::btc, 4, 4096, 1024), Pass::forward, true, false, 2).chained);
}

// Steps have 4 KB: each of two threads gets whole rows, and a row alone is halved.
TEST(LinearPartition, PiecesOfStepsStayLong) {
    const auto width = [](Dtype dtype, int64_t batch, int threads) {
        const LinearProblem p = problem(dtype, Layout::btc, batch, 4096, 1024);
        return partition(p, Pass::forward, false, false, threads).block_channels;
    };
    EXPECT_EQ(width(Dtype::f32, 4, 2), 1024);
    EXPECT_EQ(width(Dtype::bf16, 4, 2), 1024);
    EXPECT_EQ(width(Dtype::f32, 1, 2), 512);
    EXPECT_EQ(width(Dtype::f32, 1, 16), 64);
}

}  // namespace
