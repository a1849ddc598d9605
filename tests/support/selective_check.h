// SPDX-License-Identifier: Apache-2.0
// Runs plans of selective scans on values, and compares with the expected results.
#pragma once

#include "support/check.h"
#include "support/selective_bound.h"

namespace support {

// The arguments that `problem` calls for, ready to run.
Call forward_call(const SelectiveProblem& problem, const Plan& plan, int32_t backend, const SelectiveData& data,
                  Guard guard);
Call backward_call(const SelectiveProblem& problem, const Plan& plan, int32_t backend, const SelectiveData& data,
                   Guard guard);

// The outcome of planning and of running both passes `times` in the same memory.
struct SelectiveOutcome : Run {
    std::map<int32_t, Values> values;  // of each output, by its id
    const Values& operator[](int32_t id) const { return values.at(id); }
};
SelectiveOutcome run_selective(const SelectiveProblem& problem, const Target& target, const SelectiveData& data,
                               Guard guard, int times = 2);

Comparison compare(const SelectiveProblem& problem, const SelectiveData& data, int32_t id, const Values& got,
                   const Expected& expected);

struct SelectiveCase {
    SelectiveProblem problem;
    Target target;
};
std::ostream& operator<<(std::ostream& stream, const SelectiveCase& c);
std::string name_of_selective_case(const testing::TestParamInfo<SelectiveCase>& info);
std::vector<SelectiveCase> cases_on(const std::vector<Target>& targets, const std::vector<SelectiveProblem>& problems);

// Runs a case against the reference. A forced kernel may refuse.
void check_case(const SelectiveCase& c);

}  // namespace support
