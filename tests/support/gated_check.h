// SPDX-License-Identifier: Apache-2.0
// Runs plans of gated layers on values, and compares with the expected results.
#pragma once

#include "support/check.h"
#include "support/gated_bound.h"

namespace support {

// The arguments that `problem` calls for, ready to run.
Call forward_call(const GatedProblem& problem, const Plan& plan, int32_t backend, const GatedData& data, Guard guard);
// `forward` is the forward call of the same plan, which has run: RESERVE is its result. `output` is OUTPUT.
Call backward_call(const GatedProblem& problem, const Plan& plan, int32_t backend, const GatedData& data,
                   const Call& forward, const Values& output, Guard guard);

// The outcome of planning and of running both passes `times` in the same memory.
struct GatedOutcome : Run {
    std::map<int32_t, Values> values;  // of each output that is a tensor, by its id
    const Values& operator[](int32_t id) const { return values.at(id); }
};
// `output` is what backward reads as OUTPUT; empty: what forward wrote.
GatedOutcome run_gated(const GatedProblem& problem, const Target& target, const GatedData& data, const Values& output,
                       Guard guard, int times = 2);

Comparison compare(const GatedProblem& problem, const GatedData& data, int32_t id, const Values& got,
                   const GatedReference& reference);

struct GatedCase {
    GatedProblem problem;
    Target target;
};
std::ostream& operator<<(std::ostream& stream, const GatedCase& c);
std::string name_of_gated_case(const testing::TestParamInfo<GatedCase>& info);
std::vector<GatedCase> cases_on(const std::vector<Target>& targets, const std::vector<GatedProblem>& problems);

// Runs a case against the reference. A forced kernel may refuse.
void check_case(const GatedCase& c);

}  // namespace support
