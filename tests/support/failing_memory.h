// SPDX-License-Identifier: Apache-2.0
// An executable with failing_memory.cpp in it defines malloc and its kin, so that the library's allocations, those of
// its own C++ runtime included, arrive there and can be made to fail. Not built with sanitizers, which bring a malloc
// of their own.
#pragma once

#include <flashscan/flashscan.h>
#include <gtest/gtest.h>

#include <string>

namespace support {

// Counts allocations of this thread while `on`, and lets one (or all from it on) fail.
struct Ledger {
    bool on = false;
    bool all_after = false;
    int64_t fail_at = 0;  // 0: none
    int64_t count = 0;
    int64_t live = 0;
    bool fired = false;

    bool refuses();
    void freed(const void* memory) {
        if (on && memory != nullptr) --live;
    }
};
extern constinit thread_local Ledger ledger;

// Repeats `body` with the n-th allocation failing until it succeeds without one. `body` returns its status and leaves
// nothing behind. Returns the number of allocations that a success makes.
template <typename Body>
int64_t exhaust(bool all_after, Body body) {
    constexpr int64_t most = 3000;
    for (int64_t n = 1; n < most; ++n) {
        ledger = {true, all_after, n, 0, 0, false};
        const flashscan_status status = body();
        ledger.on = false;
        EXPECT_EQ(ledger.live, 0) << "leak when allocation " << n << " fails";
        if (!ledger.fired) {
            EXPECT_EQ(status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return n - 1;
        }
        EXPECT_EQ(status, FLASHSCAN_STATUS_OUT_OF_MEMORY) << "allocation " << n << ": " << flashscan_last_error();
        EXPECT_STRNE(flashscan_last_error(), "");
        if (testing::Test::HasFailure()) break;
    }
    return -1;
}

// Gives this thread's error sentence room for every sentence to come, so that keeping one is no leak.
inline void make_room_for_sentences() {
    const std::string name(4000, 'k');
    flashscan_linear_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.batch = desc.time = desc.channels = 1;
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.kernel = name.c_str();
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_ARGUMENT);
}

}  // namespace support
