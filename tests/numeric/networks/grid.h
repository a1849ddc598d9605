// SPDX-License-Identifier: Apache-2.0
// The problems in which every two of cell, type, D, B and T meet: those whose oracle is done in a moment, and the others.
#pragma once

#include <vector>

#include "support/rnn_problem.h"

namespace numeric {

std::vector<support::RnnProblem> small_grid();
std::vector<support::RnnProblem> large_grid();
// The targets that run them. On the CPU what the planner chooses is one of the kernels, which RnnSingle shows; here each
// problem runs once on each.
std::vector<support::Target> kernels_apart();

}  // namespace numeric
