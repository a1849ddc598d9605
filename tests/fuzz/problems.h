// SPDX-License-Identifier: Apache-2.0
// Valid problems against the loops of loops.h, on the planner's choice and on every kernel by name.
#pragma once

#include <string>
#include <vector>

#include "fuzz/session.h"
#include "support/bound.h"

namespace fuzz {

// One problem as a line: words of this program, then those of the problem:
//   isa-avx2   FLASHSCAN_CPU_ISA of the plans
//   spoiled    NaN and infinity lie wherever the header says that nothing looks
//   special    NaN and infinity enter and flow up to a reset (linear)
//   host, batched, source   a custom operator in this form instead of the one built in (operator mul c128)
struct Line {
    std::string problem, isa, custom;
    bool spoiled = false, special = false;
    std::string family() const { return problem.substr(0, problem.find(' ')); }
};
std::string text_of(const Line& line);
Line line_of(const std::string& text);

void check_linear(const Session& session, const Line& line);
void check_operator(const Session& session, const Line& line);
void check_rnn(const Session& session, const Line& line);
void check_gated(const Session& session, const Line& line);
void check_selective(const Session& session, const Line& line);

// The targets among `all` that the settings ask for.
std::vector<support::Target> wanted(const Session& session, const std::vector<support::Target>& all);
// Whether a run on `target` is to be compared; what else came of it is a finding.
bool completed(const Session& session, const support::Target& target, int32_t status, const std::string& message,
               const std::string& damage);

// Accepts any value where the dtype does not reach the expected one.
void forgive(int32_t dtype, const support::Values& got, support::Expected& expected);

// The case of a number, or of a line.
void problems_case(const Session& session, int64_t index);

}  // namespace fuzz
