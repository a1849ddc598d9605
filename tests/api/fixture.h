// SPDX-License-Identifier: Apache-2.0
// A small valid problem and its arguments, for tests that break one thing at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "support/call.h"

namespace api {

inline support::Problem small_problem() {
    support::Problem p;
    p.batch = 2;
    p.time = 5;
    p.channels = 3;
    p.state_in = p.state_out = true;
    return p;
}

// A failure must have this status, and a sentence with these words: the field, its value and what is accepted.
inline void expect_failure(flashscan_status got, flashscan_status status, const std::vector<std::string>& words) {
    EXPECT_STREQ(flashscan_status_name(got), flashscan_status_name(status));
    const std::string sentence = got == FLASHSCAN_STATUS_OK ? "" : flashscan_last_error();
    for (const std::string& word : words)
        EXPECT_NE(sentence.find(word), std::string::npos) << "\"" << word << "\" is not in: " << sentence;
}

// Processor time of this thread or of the process, which other programs on the machine do not lengthen.
inline double cpu_seconds(clockid_t clock) {
    timespec time{};
    if (clock_gettime(clock, &time) != 0) ADD_FAILURE() << "no clock " << clock;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline void drop(support::Call& call, int32_t id) {
    auto& list = call.arguments();
    list.erase(std::find_if(list.begin(), list.end(), [=](const flashscan_arg& a) { return a.id == id; }));
}

}  // namespace api
