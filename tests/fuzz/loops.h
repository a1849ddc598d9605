// SPDX-License-Identifier: Apache-2.0
// The definitions of the header as plain loops over steps, written apart from the library: what fuzzed problems are
// compared with. Arithmetic is long double.
#pragma once

#include "support/bound.h"
#include "support/gated_check.h"
#include "support/operator_check.h"
#include "support/rnn_check.h"
#include "support/selective_check.h"

namespace fuzz {

using Results = std::map<int32_t, support::Values>;  // of each output by its id

enum class Arithmetic {
    exact,  // long double
    narrow  // of the problem's dtype
};
// One pass; backward reads data.output, as the library does.
support::Outcome linear_loop(const support::Problem& problem, const support::Data& data, bool backward,
                             Arithmetic arithmetic = Arithmetic::exact);
Results operator_loop(const support::OperatorProblem& problem, const support::OperatorData& data);
// The same of integers, which operator_loop calls for them.
Results integer_loop(const support::OperatorProblem& problem, const support::OperatorData& data);
Results rnn_loop(const support::RnnProblem& problem, const support::RnnData& data);

// Both passes; backward of gated layers reads `output` unless it is empty, else what forward gives.
Results gated_loop(const support::GatedProblem& problem, const support::GatedData& data, const support::Values& output);
Results selective_loop(const support::SelectiveProblem& problem, const support::SelectiveData& data);

}  // namespace fuzz
