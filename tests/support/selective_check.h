// SPDX-License-Identifier: Apache-2.0
// Runs plans of selective scans on values; the expected results with the error that each may have; their comparison.
#pragma once

#include <functional>

#include "support/check.h"
#include "support/selective_problem.h"

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

// Gives the exact value of every output of a problem in 64 bits.
using SelectiveOracle = std::function<std::map<int32_t, Values>(const SelectiveProblem&, const SelectiveData&)>;
// The CPU kernel "reference".
std::map<int32_t, Values> selective_reference(const SelectiveProblem& problem, const SelectiveData& data);
// The expected values of every output, by its id.
std::map<int32_t, Expected> reference_of(const SelectiveProblem& problem, const SelectiveData& data,
                                         const SelectiveOracle& oracle = selective_reference);

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
