// SPDX-License-Identifier: Apache-2.0
// How the scan of elements cuts problems: a pure function of the shape.
#include <gtest/gtest.h>

#include "cuda/operators/tuning.h"

namespace {

using namespace flashscan::cuda;

constexpr int steps = 8, warps = 4;

ElementShape shape_of(int64_t batches, int64_t rows, int64_t time, bool time_inner) {
    return {batches, rows, time, time_inner, false, 0, steps, warps};
}

TEST(ElementTuning, CoversEveryRowAndStep) {
    for (const bool time_inner : {false, true})
        for (const bool invariant : {false, true})
            for (const int64_t rows : {1, 2, 31, 33, 1000, 100000})
                for (const int64_t time : {1, 31, 33, 255, 257, 2339, 100000}) {
                    ElementShape shape = shape_of(3, rows, time, time_inner);
                    shape.batch_invariant = invariant;
                    const ElementTuning t = tune_elements(shape);
                    const int64_t group = int64_t{1} << (t.log2_lane_rows + t.log2_warp_rows);
                    EXPECT_GE(t.row_groups * group, rows);
                    EXPECT_LT((t.row_groups - 1) * group, rows);
                    EXPECT_EQ(t.chunk_steps, int64_t{32 >> t.log2_lane_rows} * steps * (warps >> t.log2_warp_rows));
                    EXPECT_GE(t.chunks * t.chunk_steps, time);
                    EXPECT_LT((t.chunks - 1) * t.chunk_steps, time);
                }
}

TEST(ElementTuning, GroupsAreOfWarpsThatFollowEachOther) {
    for (const int64_t batches : {1, 3, 1000})
        for (const int64_t rows : {1, 33, 5000})
            for (const int64_t time : {100, 10000, 1000000}) {
                const ElementTuning t = tune_elements(shape_of(batches, rows, time, false));
                EXPECT_TRUE(t.log2_group_chunks == 0 || t.log2_warp_rows == 0);
                EXPECT_EQ(t.log2_link_groups, t.log2_group_chunks);
            }
}

TEST(ElementTuning, WarpsHaveFewerRowsWhereTheyMayAndBlocksAreFew) {
    const auto rows_of = [](int64_t batches, int64_t rows, int least) {
        ElementShape shape = shape_of(batches, rows, 4096, false);
        shape.log2_least_rows = least;
        return 1 << tune_elements(shape).log2_lane_rows;
    };
    EXPECT_EQ(rows_of(8, 1024, 3), 32);
    EXPECT_EQ(rows_of(8, 512, 3), 16);
    EXPECT_EQ(rows_of(1, 100, 3), 8);
    EXPECT_EQ(rows_of(1, 3, 3), 4);
    EXPECT_EQ(rows_of(1, 100, 5), 32);
}

TEST(ElementTuning, IsThatOfOneRowWhereBitsMayNotDependOnTheirNumber) {
    for (const bool time_inner : {false, true})
        for (const int64_t time : {1, 100, 5000, 1000000}) {
            ElementShape one = shape_of(1, 1, time, time_inner);
            one.batch_invariant = true;
            const ElementTuning a = tune_elements(one);
            for (const int64_t rows : {7, 100, 100000}) {
                ElementShape many = one;
                many.rows = rows;
                const ElementTuning b = tune_elements(many);
                EXPECT_EQ(a.log2_lane_rows, b.log2_lane_rows);
                EXPECT_EQ(a.log2_warp_rows, b.log2_warp_rows);
                EXPECT_EQ(a.chunk_steps, b.chunk_steps);
                EXPECT_EQ(a.log2_group_chunks, b.log2_group_chunks);
                EXPECT_EQ(a.log2_link_groups, b.log2_link_groups);
            }
        }
}

}  // namespace
