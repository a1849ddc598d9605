// SPDX-License-Identifier: Apache-2.0
// Random valid problems of each family, of a size that takes milliseconds.
#pragma once

#include "fuzz/random.h"
#include "support/gated_problem.h"
#include "support/operator_problem.h"
#include "support/rnn_problem.h"
#include "support/selective_problem.h"

namespace fuzz {

support::Problem draw_linear(Random& random);
support::OperatorProblem draw_operator(Random& random);
support::RnnProblem draw_rnn(Random& random);
support::GatedProblem draw_gated(Random& random);
support::SelectiveProblem draw_selective(Random& random);

}  // namespace fuzz
