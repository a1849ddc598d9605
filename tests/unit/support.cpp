// SPDX-License-Identifier: Apache-2.0
// The tests' own tools: what they must notice.
#include <gtest/gtest.h>

#include <set>

#include "support/memory.h"
#include "support/pairwise.h"
#include "support/problem.h"

namespace unit {
namespace {

using namespace support;

TEST(Pairwise, CoversEveryPair) {
    const std::vector<int> levels{4, 3, 2, 5, 2};
    const auto rows = pairwise_rows(levels, 9);
    for (size_t f = 0; f < levels.size(); ++f)
        for (size_t g = f + 1; g < levels.size(); ++g) {
            std::set<std::pair<int, int>> met;
            for (const auto& row : rows) met.insert({row[f], row[g]});
            EXPECT_EQ(met.size(), static_cast<size_t>(levels[f] * levels[g]));
        }
    EXPECT_LT(rows.size(), 40U);
}

TEST(Buffers, NoticeStrayWritesOnTheirOpenSide) {
    for (const Guard guard : {Guard::start, Guard::end}) {
        const auto buffer = make_buffer(FLASHSCAN_BACKEND_CPU, 100, guard, 4, 0);
        EXPECT_TRUE(buffer->surroundings_intact());
        auto* bytes = static_cast<unsigned char*>(buffer->data());
        bytes[guard == Guard::start ? 100 : -1] = 0;
        EXPECT_FALSE(buffer->surroundings_intact());
    }
}

#if !defined(__SANITIZE_THREAD__)
TEST(BuffersDeathTest, EndInAGuardPage) {
    const auto after = make_buffer(FLASHSCAN_BACKEND_CPU, 100, Guard::end, 4, 0);
    const auto before = make_buffer(FLASHSCAN_BACKEND_CPU, 100, Guard::start, 4, 0);
    EXPECT_DEATH(static_cast<volatile unsigned char*>(after->data())[100] = 1, "");
    EXPECT_DEATH(static_cast<volatile unsigned char*>(before->data())[-1] = 1, "");
}
#endif

TEST(Tensors, PlacementsNest) {
    Problem p;
    p.batch = 3;
    p.time = 5;
    p.channels = 7;
    for (int i = 0; i < placement_count; ++i) {
        p.placement = static_cast<Placement>(i);
        const Tensor tensor = tensor_of(p, Role::output);
        std::set<int64_t> places;
        for (int64_t b = 0; b < 3; ++b)
            for (int64_t t = 0; t < 5; ++t)
                for (int64_t c = 0; c < 7; ++c) places.insert(tensor.at(b, t, c));
        EXPECT_EQ(places.size(), 105U) << i;
        EXPECT_EQ(*places.rbegin() + 1, tensor.span()) << i;
    }
}

}  // namespace
}  // namespace unit
