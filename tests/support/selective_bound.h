// SPDX-License-Identifier: Apache-2.0
// The expected results of selective scans with the error that each may have.
#pragma once

#include "support/bound.h"
#include "support/selective_problem.h"

namespace support {

// Fills in the tolerances beside the values of `expected`, by their ids, which may be without some outputs.
void set_tolerances(const SelectiveProblem& problem, const SelectiveData& data, std::map<int32_t, Expected>& expected);

// Gives the exact value of every output of a problem in 64 bits.
using SelectiveOracle = std::function<std::map<int32_t, Values>(const SelectiveProblem&, const SelectiveData&)>;
// The CPU kernel "reference".
std::map<int32_t, Values> selective_reference(const SelectiveProblem& problem, const SelectiveData& data);
// The expected values of every output, by its id.
std::map<int32_t, Expected> reference_of(const SelectiveProblem& problem, const SelectiveData& data,
                                         const SelectiveOracle& oracle = selective_reference);

}  // namespace support
