// SPDX-License-Identifier: Apache-2.0
// Linear recurrences whose time is cut over ranks, against the oracle on the whole.
#pragma once

#include <iosfwd>

#include "support/check.h"
#include "support/ranks.h"

namespace numeric {

inline constexpr int32_t rank_counts[] = {1, 2, 3, 5, 8};

struct RankCase {
    support::Problem problem;
    std::string kernel;
    int32_t ranks;
};
std::ostream& operator<<(std::ostream& stream, const RankCase& c);
std::string name_of_ranks(const testing::TestParamInfo<RankCase>& info);
// Each problem on one of the numbers of ranks.
std::vector<RankCase> rank_cases(const std::vector<support::Problem>& problems, const char* kernel);

void expect_close(const support::Comparison& comparison);
void expect_forward(const support::Problem& problem, const support::Data& data, const support::RanksOutcome& got,
                    const support::Reference& reference);
void expect_backward(const support::Problem& problem, const support::Data& data, const support::RanksOutcome& got,
                     support::Reference reference);
// Runs both passes on the ranks that meet.
void expect_near_reference(const support::Problem& problem, const std::string& kernel, support::Data data,
                           const std::vector<int64_t>& lengths, support::Meeting& meeting);

}  // namespace numeric
