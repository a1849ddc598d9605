// SPDX-License-Identifier: Apache-2.0
// What tests of properties share: runs of the case's target that have to succeed.
#pragma once

#include <gtest/gtest.h>

#include "support/check.h"

namespace numeric {

using namespace support;

class Property : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        SKIP_UNLESS_AVAILABLE(GetParam().target);
        const Plan plan(GetParam().problem, GetParam().target);
        if (!GetParam().target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED)
            GTEST_SKIP() << "kernel refuses: " << plan.message().substr(0, 300);
        ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    }
    // Whether the case's kernel was forced and does not take what the test makes of its problem.
    static bool refuses(const Problem& p) {
        return !GetParam().target.kernel.empty() && Plan(p, GetParam().target).status() == FLASHSCAN_STATUS_UNSUPPORTED;
    }
    static Outcome forward(const Problem& p, const Data& data) {
        Outcome outcome = run_forward(p, GetParam().target, data, Guard::end);
        require(outcome);
        return outcome;
    }
    static Outcome backward(const Problem& p, const Data& data) {
        Outcome outcome = run_backward(p, GetParam().target, data, Guard::start);
        require(outcome);
        return outcome;
    }
};

}  // namespace numeric
