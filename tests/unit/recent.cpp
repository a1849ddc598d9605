// SPDX-License-Identifier: Apache-2.0
#include "cuda/rnn/recent.h"

#include <gtest/gtest.h>

#include <memory>

namespace flashscan::cuda {
namespace {

using Table = Recent<int, std::shared_ptr<int>, 3>;

TEST(Recent, CountsAndKeepsValues) {
    Table table;
    EXPECT_EQ(table[7].asked, 1U);
    EXPECT_EQ(table[7].value, nullptr);
    table[7].value = std::make_shared<int>(70);
    EXPECT_EQ(table[8].asked, 1U);
    EXPECT_EQ(table[7].asked, 4U);
    EXPECT_EQ(*table[7].value, 70);
}

TEST(Recent, ForgetsTheOneNotAskedForLongest) {
    Table table;
    const auto value = std::make_shared<int>(1);
    for (const int key : {1, 2, 3}) table[key].value = value;
    EXPECT_EQ(value.use_count(), 4);
    (void)table[1];
    (void)table[4];  // in the place of 2
    EXPECT_EQ(value.use_count(), 3);
    EXPECT_EQ(table[1].asked, 3U);
    EXPECT_EQ(table[3].asked, 2U);
    EXPECT_EQ(table[2].asked, 1U);  // in the place of 4
    EXPECT_EQ(table[2].value, nullptr);
    EXPECT_EQ(value.use_count(), 3);
}

}  // namespace
}  // namespace flashscan::cuda
