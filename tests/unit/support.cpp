// SPDX-License-Identifier: Apache-2.0
// The tests' own tools: what they must notice.
#include <gtest/gtest.h>

#include <set>

#include "support/any_problem.h"
#include "support/memory.h"
#include "support/pairwise.h"

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
        const Tensor tensor = tensor_of(p, FLASHSCAN_ARG_OUTPUT);
        std::set<int64_t> places;
        for (int64_t b = 0; b < 3; ++b)
            for (int64_t t = 0; t < 5; ++t)
                for (int64_t c = 0; c < 7; ++c) places.insert(tensor.at(b, t, c));
        EXPECT_EQ(places.size(), 105U) << i;
        EXPECT_EQ(*places.rbegin() + 1, tensor.span()) << i;
    }
}

TEST(Tensors, HalvesOfOneArrayLieBesideEachOther) {
    const Problem p = problem_of("linear bwd f32 BCT b3 t5 c7 strided place-misaligned");
    const int32_t halves[] = {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE};
    for (const int32_t id : halves) {
        EXPECT_EQ(tensor_of(p, id).strides, (std::array<int64_t, 3>{70, 1, 5}));
        EXPECT_TRUE(tensor_of(p, id).misaligned);
    }
    EXPECT_EQ(tensor_of(p, FLASHSCAN_ARG_OUTPUT).strides, (std::array<int64_t, 3>{35, 1, 5}));
}

// Words that results up to 2026-11 have, in today's words; what is as in a new problem has none.
TEST(Lines, KnowWordsOfBefore) {
    const std::pair<const char*, const char*> lines[] = {
        {"linear fwd c64 BTC b1 t2 c64 log states misaligned",
         "linear fwd c64 BTC b1 t2 c64 form-log state-in state-out "
         "place-misaligned"},
        {"linear f32 BCT b1 t2 c3 grads-xgs seed1", "linear bwd f32 BCT b1 t2 c3"},
        {"rnn gru fwd bf16 b1 t2 h3 d4 states training", "rnn gru fwd bf16 b1 t2 h3 d4 training state-in state-out"},
        {"operator add inclusive bwd i32 b1 t2 c3 misaligned", "operator add bwd i32 b1 t2 c3 place-misaligned"},
        {"selective f32 BTC b1 t2 c3 n4 g1 states", "selective bwd f32 BTC b1 t2 c3 n4 state-in state-out"}};
    for (const auto& [before, today] : lines) {
        EXPECT_EQ(text_of(any_problem_of(before)), today);
        EXPECT_EQ(text_of(any_problem_of(today)), today);
    }
    for (const char* wrong :
         {"", "scan fwd f32", "linear fwd f32 q3", "rnn lstm h", "operator add values-", "gated t1x"})
        EXPECT_THROW(any_problem_of(wrong), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace unit
