// SPDX-License-Identifier: Apache-2.0
// A problem line of any family, as tests, the fuzzer and flashscan_bench print and take it.
#pragma once

#include <variant>

#include "support/gated_problem.h"
#include "support/operator_problem.h"
#include "support/rnn_problem.h"
#include "support/selective_problem.h"

namespace support {

using AnyProblem = std::variant<Problem, RnnProblem, OperatorProblem, GatedProblem, SelectiveProblem>;

// The family is the first word. Throws std::invalid_argument naming what is not understood.
AnyProblem any_problem_of(const std::string& text);
std::string text_of(const AnyProblem& problem);

}  // namespace support
