// SPDX-License-Identifier: Apache-2.0
// Data whose products of gates leave the numbers of the arithmetic and come back, while no state does.
#pragma once

#include <vector>

#include "support/data.h"

namespace numeric {

// Binary logarithms: between which states wander, and how far steps and leaps take them. A gradient of a gate is as
// large as a leap.
struct Range {
    double low, high, least_step, most_step, leap;
};

Range range_of(int32_t dtype, bool steep);

// Inputs are of the size of the state that they join, and gradients of its inverse, so that no step is forgotten.
support::Data wandering_data(const support::Problem& problem, const Range& range);

// States climb from the low end of the range to the high one, are dropped by a gate of 0 and begin anew at the low end
// with an input, so that only products of gates leave the numbers of the arithmetic, and only above.
support::Data climbing_data(const support::Problem& problem);

// Problems of every data type that are long enough for it.
std::vector<support::Problem> far_problems();

}  // namespace numeric
