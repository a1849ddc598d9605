// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/launch.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace flashscan::cuda
