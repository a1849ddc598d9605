// SPDX-License-Identifier: Apache-2.0
// How persistent kernels share out a recurrent network: a pure function of the shape.
#include <gtest/gtest.h>

#include "core/rounding.h"
#include "cuda/rnn/persistent/tuning.h"

namespace {

using namespace flashscan;
using namespace flashscan::cuda;

constexpr int multiprocessors = 132, shared_bytes = 227 * 1024;

RnnPersistentShape choose(Dtype dtype, Cell cell, int64_t head_dim, int64_t heads, int64_t rows, Pass pass,
                          bool clusters = true) {
    RnnProblem p;
    p.dtype = p.weight_dtype = dtype;
    p.cell = cell;
    p.heads = heads;
    p.head_dim = head_dim;
    p.batch = rows;
    const int64_t padded = round_up(head_dim, 16 / size_of(dtype));
    return choose_persistent(p, pass, rows, padded, multiprocessors, shared_bytes, clusters);
}

TEST(RnnPersistentTuning, CoversEveryUnitAndRowAndFitsTheDevice) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16})
        for (const Cell cell : {Cell::lstm, Cell::gru_reset_before, Cell::elman})
            for (const int64_t head_dim : {1, 7, 64, 100, 512, 768, 1500})
                for (const int64_t heads : {1, 3, 12, 200})
                    for (const int64_t rows : {1, 8, 9, 33, 64})
                        for (const Pass pass : {Pass::forward, Pass::backward}) {
                            const RnnPersistentShape s = choose(dtype, cell, head_dim, heads, rows, pass);
                            ASSERT_GT(s.blocks, 0) << head_dim << ' ' << heads << ' ' << rows;
                            EXPECT_GE(s.blocks * s.units, head_dim);
                            EXPECT_LT((s.blocks - 1) * s.units, head_dim);
                            EXPECT_GE(s.groups * s.tiles * 8, rows);
                            EXPECT_LT((s.groups - 1) * s.tiles * 8, rows);
                            EXPECT_LE(s.units * s.tiles * 8, rnn_persistent_threads);
                            EXPECT_LE(s.teams * s.blocks, multiprocessors);
                            EXPECT_TRUE(s.clustered == 0 || s.blocks <= 16);
                            EXPECT_LE(s.teams, heads * s.groups);
                            EXPECT_LE(s.shared_bytes, shared_bytes - 1024);
                            EXPECT_EQ(s.vectors_at % 16, 0);
                            EXPECT_EQ(s.sums_at % 16, 0);
                        }
}

TEST(RnnPersistentTuning, SplitsRowsWhereBothHalvesHoldR) {
    const RnnPersistentShape s = choose(Dtype::f64, Cell::lstm, 512, 1, 16, Pass::forward);
    EXPECT_EQ(s.teams, 2);
    EXPECT_EQ(s.stored, 4 * s.units);
}

TEST(RnnPersistentTuning, TakesClustersWhereTheyHoldR) {
    EXPECT_EQ(choose(Dtype::f32, Cell::gru_reset_before, 256, 1, 16, Pass::forward).clustered, 1);
    EXPECT_EQ(choose(Dtype::f32, Cell::gru_reset_before, 256, 1, 16, Pass::forward, false).clustered, 0);
    EXPECT_EQ(choose(Dtype::f64, Cell::lstm, 768, 1, 16, Pass::forward).clustered, 0);
    EXPECT_EQ(choose(Dtype::bf16, Cell::gru_reset_before, 768, 1, 16, Pass::forward).clustered, 0);  // all but 13 rows
}

TEST(RnnPersistentTuning, TakesNoVectorsThatDoNotFit) {
    EXPECT_EQ(choose(Dtype::f64, Cell::lstm, 4096, 1, 16, Pass::forward).blocks, 0);
}

}  // namespace
