// SPDX-License-Identifier: Apache-2.0
// The expected results of gated layers with the error that each may have.
#pragma once

#include "support/bound.h"
#include "support/gated_problem.h"

namespace support {

// The expected values of every output, by its id, and OUTPUT as backward reads it.
struct GatedReference {
    std::map<int32_t, Expected> expected;
    Values output;
};
// Fills in the tolerances beside the values of `reference`, which may be without some outputs.
void set_tolerances(const GatedProblem& problem, const GatedData& data, GatedReference& reference);

// Gives the exact value of every output of a problem in 64 bits; `output` as in run_gated.
using GatedOracle =
    std::function<std::map<int32_t, Values>(const GatedProblem&, const GatedData&, const Values& output)>;
// The CPU kernel "reference".
std::map<int32_t, Values> gated_reference(const GatedProblem& problem, const GatedData& data, const Values& output);
GatedReference reference_of(const GatedProblem& problem, const GatedData& data,
                            const GatedOracle& oracle = gated_reference);

}  // namespace support
