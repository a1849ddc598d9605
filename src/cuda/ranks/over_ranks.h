// SPDX-License-Identifier: Apache-2.0
// The problems by which a rank joins the gathered messages of the ranks of an operator: ranks are their steps, and all
// chains their channels.
#pragma once

#include "core/linear_problem.h"
#include "core/operator_problem.h"

namespace flashscan::cuda {

// Reduces or scans the elements that `steps` ranks have sent.
inline OperatorProblem elements_of_ranks(const OperatorProblem& p, OperatorMode mode, int64_t steps) {
    OperatorProblem over;
    over.kind = p.kind;
    over.dtype = p.is_custom() ? p.dtype : state_dtype(p.dtype);
    over.mode = mode;
    over.direction = p.direction;
    over.batch = 1;
    over.time = steps;
    over.dim = p.dim;
    over.channels = p.chains();
    over.has_custom = p.has_custom;
    over.custom = p.custom;
    validate(over);
    return over;
}

// Reduces the numbers of the elements that `steps` ranks have sent.
inline OperatorProblem numbers_of_ranks(const OperatorProblem& p, OperatorKind kind, Dtype dtype, int64_t steps) {
    OperatorProblem over;
    over.kind = kind;
    over.dtype = dtype;
    over.mode = OperatorMode::reduction;
    over.direction = p.direction;
    over.batch = 1;
    over.time = steps;
    over.channels = p.chains() * p.element() * p.number_bytes() / size_of(p.dtype);
    validate(over);
    return over;
}

// Takes a gradient back through so many ranks whose slopes are numbers.
inline LinearProblem gradients_of_ranks(const OperatorProblem& p, int64_t ranks) {
    LinearProblem over;
    over.dtype = over.gate_dtype = state_dtype(p.dtype);
    over.layout = Layout::btc;
    over.gate_form = GateForm::value;
    over.direction = p.direction == Direction::forward ? Direction::reverse : Direction::forward;
    over.batch = 1;
    over.time = ranks;
    over.channels = p.chains();
    validate(over);
    return over;
}

}  // namespace flashscan::cuda
