// SPDX-License-Identifier: Apache-2.0
// The expected results of a recurrent network with the error that each may have, and the comparison with a target's.
#pragma once

#include "support/check.h"
#include "support/rnn_call.h"

namespace support {

// The expected values of every output, by its id.
using RnnReference = std::map<int32_t, Expected>;

// Gives the exact value of every output of a problem in 64 bits.
using RnnOracle = std::function<std::map<int32_t, Values>(const RnnProblem&, const RnnData&)>;
// The CPU kernel "reference".
std::map<int32_t, Values> rnn_reference(const RnnProblem& problem, const RnnData& data);

// Runs the oracle once on the data, and on disturbed data to see how errors grow (rnn_bound.cpp).
RnnReference reference_of(const RnnProblem& problem, const RnnData& data, const RnnOracle& oracle = rnn_reference);

// The extents of an output of `problem` as Values, and the steps of it that are written.
std::array<int64_t, 3> extents_of(const RnnProblem& problem, int32_t id);
int64_t written_time(const RnnProblem& problem, const RnnData& data, int32_t id);

// The comparison of one output.
Comparison compare(const RnnProblem& problem, const RnnData& data, int32_t id, const Values& got,
                   const RnnReference& reference);

struct RnnCase {
    RnnProblem problem;
    Target target;
};
std::ostream& operator<<(std::ostream& stream, const RnnCase& c);
std::string name_of_rnn_case(const testing::TestParamInfo<RnnCase>& info);
std::vector<RnnCase> cases_on(const std::vector<Target>& targets, const std::vector<RnnProblem>& problems);

// Runs a case against the reference. A forced kernel may refuse.
void check_case(const RnnCase& c);

}  // namespace support
