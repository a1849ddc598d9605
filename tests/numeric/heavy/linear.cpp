// SPDX-License-Identifier: Apache-2.0
// Linear recurrences of one long row and of many short ones against the reference.
#include <gtest/gtest.h>

#include "numeric/problems.h"
#include "support/check.h"

namespace numeric {
namespace {

// All but the oracle, which comes last.
std::vector<support::Target> planners_and_kernels() {
    std::vector<support::Target> targets = support::all_targets();
    targets.pop_back();
    return targets;
}

class Linear : public testing::TestWithParam<support::Case> {};

TEST_P(Linear, MatchesReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    support::check_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Extremes, Linear, testing::ValuesIn(support::cases_on(planners_and_kernels(), extremes())),
                         support::name_of_case);

}  // namespace
}  // namespace numeric
