// SPDX-License-Identifier: Apache-2.0
// Custom operators, one pair of elements after another.
#pragma once

#include "core/backend.h"

namespace flashscan::reference {

std::unique_ptr<OperatorKernel> make_custom(const OperatorProblem& problem, std::string& refusal);

}  // namespace flashscan::reference
