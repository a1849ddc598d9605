// SPDX-License-Identifier: Apache-2.0
// Runs plans of associative operators on values and compares them with the oracle, within bounds derived from the
// number of operations on a path and the moduli of the data.
#pragma once

#include "support/check.h"
#include "support/operator_problem.h"

namespace support {

struct OperatorOutcome : Run {
    std::map<int32_t, Values> values;  // of each output
    const Values& operator[](int32_t id) const { return values.at(id); }
};
// The arguments that `problem` calls for, ready to run; `output` is what forward gave.
Call forward_call(const OperatorProblem& problem, const Plan& plan, int32_t backend, const OperatorData& data,
                  Guard guard);
Call backward_call(const OperatorProblem& problem, const Plan& plan, int32_t backend, const OperatorData& data,
                   const Values& output, Guard guard);
// Both passes, or forward alone; each so often in the same memory.
OperatorOutcome run_operator(const OperatorProblem& problem, const Target& target, const OperatorData& data,
                             Guard guard, int times = 2);
// The same with a descriptor of the same arguments.
OperatorOutcome run_operator(const OperatorProblem& problem, const flashscan_operator_desc& desc, const Target& target,
                             const OperatorData& data, Guard guard, int times = 2);
// Runs a problem, with memory guarded behind its ends, which must succeed.
inline OperatorOutcome must_run(const OperatorProblem& problem, const OperatorData& data, const Target& target = {}) {
    OperatorOutcome outcome = run_operator(problem, target, data, Guard::end);
    require(outcome);
    return outcome;
}
// Tests of operators that hold on every target.
class OperatorOnTarget : public testing::TestWithParam<Target> {
  protected:
    void SetUp() override { SKIP_UNLESS_AVAILABLE(GetParam()); }
    static OperatorOutcome run(const OperatorProblem& p, const OperatorData& data) {
        return must_run(p, data, GetParam());
    }
};

// Gives the exact value of every output of a problem in 64 bits.
using OperatorOracle = std::function<std::map<int32_t, Values>(const OperatorProblem&, const OperatorData&)>;
// The CPU kernel "reference".
std::map<int32_t, Values> operator_reference(const OperatorProblem& problem, const OperatorData& data);

// The expected value of every output with the error that it may have. Fills data.output with rounded OUTPUT where
// backward reads it, so that both compute gradients from the same numbers.
std::map<int32_t, Expected> reference_of(const OperatorProblem& problem, OperatorData& data,
                                         const OperatorOracle& oracle = operator_reference);
// The axes of an output, time in the middle, and the steps of it that are written.
std::array<int64_t, 3> extents_of(const OperatorProblem& problem, int32_t id);
int64_t written_time(const OperatorProblem& problem, const OperatorData& data, int32_t id);

struct OperatorCase {
    OperatorProblem problem;
    Target target;
};
std::ostream& operator<<(std::ostream& stream, const OperatorCase& c);
std::string name_of_operator_case(const testing::TestParamInfo<OperatorCase>& info);
std::vector<OperatorCase> cases_on(const std::vector<Target>& targets, const std::vector<OperatorProblem>& problems);

// Runs a case against the reference. A forced kernel may refuse.
void check_case(const OperatorCase& c);

}  // namespace support
