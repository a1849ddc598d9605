// SPDX-License-Identifier: Apache-2.0
// Compares a target's results with the reference; failures go to GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "support/bound.h"
#include "support/call.h"

namespace support {

// One value-parameterised case.
struct Case {
    Problem problem;
    Target target;
};
std::ostream& operator<<(std::ostream& stream, const Case& c);
// "cpu_chunked_017"
std::string name_of_case(const testing::TestParamInfo<Case>& info);
// What `make` gives for a problem, kept until the next one: the targets of a problem follow each other in lists of
// cases.
template <typename Problem, typename Make>
const auto& kept_for(const Problem& problem, const Make& make) {
    static std::pair<std::string, std::invoke_result_t<Make>> kept;
    if (kept.first != text_of(problem)) kept = {text_of(problem), make()};
    return kept.second;
}
// Every problem on every target. A forced kernel counts only where it takes the problem.
std::vector<Case> cases_on(const std::vector<Target>& targets, const std::vector<Problem>& problems);

// The largest error over tolerance in units of the tolerance, and the first sentence about an element past it.
struct Comparison {
    double worst = 0;
    std::string sentence;
    bool ok() const { return sentence.empty(); }
};
// Values of steps from `time_end` on are not looked at; `extents` are those of the tensor.
Comparison compare(const std::string& name, const std::array<int64_t, 3>& extents, int64_t time_end, const Values& got,
                   const Expected& expected);

// Runs both passes of a case against the reference, with guard pages at both ends for small problems.
void check_case(const Case& c);

// The cases have to say where they did not run.
#define SKIP_UNLESS_AVAILABLE(target) \
    if (const char* reason = ::support::unavailable((target).backend)) GTEST_SKIP() << reason

}  // namespace support
