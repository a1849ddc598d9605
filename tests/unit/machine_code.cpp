// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/machine_code.h"

#include <gtest/gtest.h>

namespace flashscan::cuda {
namespace {

TEST(MachineCode, RunsOnItsMajorVersionFromItsMinorVersionOn) {
    EXPECT_TRUE(runs_on("80-real", 8, 0));
    EXPECT_TRUE(runs_on("80-real", 8, 9));
    EXPECT_FALSE(runs_on("86-real", 8, 0));
    EXPECT_FALSE(runs_on("80-real", 9, 0));
    EXPECT_FALSE(runs_on("90-real", 8, 9));
    EXPECT_TRUE(runs_on("120-real", 12, 1));
    EXPECT_FALSE(runs_on("100-real", 12, 0));
}

TEST(MachineCode, OfPtxIsMadeForNewerDevices) {
    for (const char* list : {"80", "80-virtual"}) {
        EXPECT_TRUE(runs_on(list, 8, 6)) << list;
        EXPECT_TRUE(runs_on(list, 12, 0)) << list;
        EXPECT_FALSE(runs_on(list, 7, 5)) << list;
    }
    EXPECT_FALSE(runs_on("120", 10, 0));
}

TEST(MachineCode, OfAnArchitectureOrAFamilyStaysThere) {
    for (const char* list : {"90a", "90a-real", "90a-virtual"}) {
        EXPECT_TRUE(runs_on(list, 9, 0)) << list;
        EXPECT_FALSE(runs_on(list, 10, 0)) << list;
        EXPECT_FALSE(runs_on(list, 8, 0)) << list;
    }
    EXPECT_TRUE(runs_on("100f", 10, 3));
    EXPECT_FALSE(runs_on("100f", 12, 0));
}

TEST(MachineCode, OneOfAListIsEnough) {
    EXPECT_TRUE(runs_on("80 90a-real", 9, 0));
    EXPECT_TRUE(runs_on("80 90a-real", 10, 0));
    EXPECT_TRUE(runs_on("80-real 90a-real", 8, 6));
    EXPECT_FALSE(runs_on("80-real 90a-real", 10, 0));
    EXPECT_FALSE(runs_on("", 9, 0));
}

TEST(MachineCode, ANameWithoutANumberIncludesTheDevice) {
    for (const char* list : {"native", "all", "all-major"}) EXPECT_TRUE(runs_on(list, 9, 0)) << list;
}

}  // namespace
}  // namespace flashscan::cuda
