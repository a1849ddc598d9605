// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/launch.h"

#include <gtest/gtest.h>

#include "cuda/launch/step_rows.h"

namespace flashscan::cuda {
namespace {

TEST(Launch, TakesAsManyBlocksAsAGridHolds) {
    constexpr int64_t most = 0x7fffffff;
    EXPECT_EQ(blocks_of(most, 64).blocks.x, 0x7fffffffU);
    EXPECT_EQ(threads_in_blocks(256 * most - 255, 256).blocks.x, 0x7fffffffU);
    for (const int64_t count : {int64_t{-1}, most + 1, int64_t{1} << 32, (int64_t{1} << 32) + 1})
        EXPECT_THROW(blocks_of(count, 64), Error) << count;
    EXPECT_THROW(threads_in_blocks(256 * most + 1, 256), Error);
}

TEST(Launch, ChunksAreTheOtherAxesOfAGrid) {
    const LaunchShape shape = grid_of_chunks(3, 65536, 64);
    EXPECT_EQ(shape.blocks.x, 3U);
    EXPECT_EQ(shape.blocks.y, 32768U);
    EXPECT_EQ(shape.blocks.z, 2U);
    EXPECT_EQ(shape.threads, 64);
    EXPECT_THROW(grid_of_chunks(65536, 32768, 64), Error);
}

TEST(Launch, KernelsForFewStepsNameTheCountThatIsTooLarge) {
    Sequences p;
    p.batch = 3;
    p.time = 1;
    constexpr int64_t most = 2147482623, third = most / 3;
    EXPECT_EQ(step_threads_refusal(p, most, third, "channels"), "");
    EXPECT_EQ(step_threads_refusal(p, most + 1, third, "channels"), "channels is 2147482624; takes up to 2147482623");
    EXPECT_EQ(step_threads_refusal(p, most, third + 1, "channels"),
              "the number of threads is 2147482626; takes up to 2147482623");
    p.time = most + 1;
    EXPECT_EQ(step_threads_refusal(p, 1, 1, "channels"), "time is 2147482624; takes up to 2147482623");
}

}  // namespace
}  // namespace flashscan::cuda
