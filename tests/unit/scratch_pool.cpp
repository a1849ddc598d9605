// SPDX-License-Identifier: Apache-2.0
#include "cpu/scratch_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace flashscan::cpu {
namespace {

constexpr size_t bytes = 100000;

TEST(ScratchPool, KeepsABlockForLaterCalls) {
    const auto kept = keep_scratch(bytes);
    if (kept == nullptr) GTEST_SKIP() << "with AddressSanitizer nothing is kept";
    void* const first = allocate_scratch(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0U);
    void* const second = allocate_scratch(bytes);  // a call at the same time
    EXPECT_NE(first, second);
    release_scratch(first);
    release_scratch(second);
    void* const smaller = allocate_scratch(bytes - 1000);
    EXPECT_EQ(smaller, first);
    release_scratch(smaller);
}

TEST(ScratchPool, MakesRoomForLargerBlocks) {
    const auto kept = keep_scratch(bytes), more = keep_scratch(3 * bytes);
    if (kept == nullptr) GTEST_SKIP() << "with AddressSanitizer nothing is kept";
    release_scratch(allocate_scratch(bytes));
    void* const large = allocate_scratch(3 * bytes);
    release_scratch(large);
    void* const small = allocate_scratch(bytes);
    EXPECT_EQ(small, large);
    release_scratch(small);
}

TEST(ScratchPool, WorksWithoutPlans) {
    for (const size_t size : {size_t{0}, size_t{1}, bytes, 40 * bytes}) {
        void* const memory = allocate_scratch(size);
        ASSERT_NE(memory, nullptr);
        release_scratch(memory);
    }
}

}  // namespace
}  // namespace flashscan::cpu
