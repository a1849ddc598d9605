// SPDX-License-Identifier: Apache-2.0
// How carries travel between GPUs, by the cost model.
#include "core/rank_schedule.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace {

using namespace flashscan;

constexpr double mb = 1 << 20;

// A pass of `arrays` arrays of so many MB each, two of which a summary reads, of 8192 rows of f32.
RankWork work_of(int32_t ranks, double array_mb, int arrays) {
    RankWork w;
    w.ranks = ranks;
    w.pass_us = stream_us(arrays * array_mb * mb);
    w.summary_us = stream_us(2 * array_mb * mb);
    w.state_bytes = 8192 * 4;
    w.message_bytes = 2 * w.state_bytes;
    w.rows = 8192;
    w.most_groups = 256;
    return w;
}

TEST(RankSchedule, LargeArraysOnTwoRanksGoInAWavefront) {
    for (const int arrays : {3, 5}) {
        const RankSchedule chosen = choose_schedule(work_of(2, 1024, arrays), Carries::chosen, 0);
        EXPECT_EQ(chosen.carries, Carries::wavefront) << chosen.why;
        EXPECT_GT(chosen.groups, 4);
        EXPECT_LE(chosen.groups, 8);  // of 1024 rows
    }
}

TEST(RankSchedule, SmallArraysAreGathered) {
    const RankSchedule chosen = choose_schedule(work_of(8, 1, 3), Carries::chosen, 0);
    EXPECT_EQ(chosen.carries, Carries::gathered) << chosen.why;
    EXPECT_EQ(chosen.groups, 1);
    EXPECT_NE(chosen.why.find("a wavefront"), std::string::npos);
}

TEST(RankSchedule, PeerMemoryMakesAWavefrontWorthwhileForSmallerArrays) {
    RankWork w = work_of(2, 30, 3);
    EXPECT_EQ(choose_schedule(w, Carries::chosen, 0).carries, Carries::gathered);
    w.peer_memory = true;
    EXPECT_EQ(choose_schedule(w, Carries::chosen, 0).carries, Carries::wavefront);
}

TEST(RankSchedule, ManyRanksWaitTooLongForAWavefront) {
    EXPECT_EQ(choose_schedule(work_of(64, 256, 3), Carries::chosen, 0).carries, Carries::gathered);
}

TEST(RankSchedule, NoOtherNumberOfGroupsIsFaster) {
    const RankWork w = work_of(4, 256, 3);
    const RankSchedule chosen = choose_schedule(w, Carries::wavefront, 0);
    for (int32_t k = 1; k <= 8; ++k) EXPECT_LE(chosen.us, wavefront_us(w, k)) << k;
    EXPECT_EQ(chosen.us, wavefront_us(w, chosen.groups));
}

TEST(RankSchedule, WhatIsWantedIsDone) {
    const RankWork w = work_of(2, 1, 3);
    EXPECT_EQ(choose_schedule(w, Carries::wavefront, 5).groups, 5);
    EXPECT_EQ(choose_schedule(w, Carries::wavefront, 1000).groups, 256);
    EXPECT_EQ(choose_schedule(work_of(2, 1024, 3), Carries::gathered, 5).carries, Carries::gathered);
}

TEST(RankSchedule, SumsOverRowsAreGathered) {
    RankWork w = work_of(2, 1024, 5);
    w.most_groups = 0;
    const RankSchedule chosen = choose_schedule(w, Carries::chosen, 0);
    EXPECT_EQ(chosen.carries, Carries::gathered);
    EXPECT_NE(chosen.why.find("sum over the rows"), std::string::npos);
    EXPECT_THROW(choose_schedule(w, Carries::wavefront, 0), Error);
    w.why_whole = "of another reason";
    EXPECT_EQ(choose_schedule(w, Carries::chosen, 0).why, "of another reason");
}

TEST(RankSchedule, GroupsHaveAsManyRowsAsTheirFamilyNeeds) {
    RankWork w = work_of(2, 1024, 3);
    w.least_rows = 3000;
    EXPECT_EQ(choose_schedule(w, Carries::wavefront, 0).groups, 2);
    w.least_rows = 10000;
    EXPECT_EQ(choose_schedule(w, Carries::wavefront, 0).groups, 1);
    EXPECT_EQ(choose_schedule(w, Carries::wavefront, 5).groups, 5);  // as the caller wants
}

// As much as a summary reads is too much.
TEST(RankSchedule, WhatIsReadBeforeAWavefrontCounts) {
    RankWork w = work_of(2, 1024, 3);
    const double us = wavefront_us(w, 8);
    EXPECT_EQ(choose_schedule(w, Carries::chosen, 0).carries, Carries::wavefront);
    w.before_us = w.summary_us;
    EXPECT_GT(wavefront_us(w, 8), us + gathered_us(w) / 3);
    EXPECT_EQ(choose_schedule(w, Carries::chosen, 0).carries, Carries::gathered);
}

}  // namespace
