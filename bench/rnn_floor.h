// SPDX-License-Identifier: Apache-2.0
// The floor of a recurrent network's step: what the fastest known way of keeping R on chip costs at the least, from
// latencies and rates measured on an H200. No kernel has to work that way; the floor is a yardstick.
#pragma once

#include "problem.h"

namespace bench {

// Microseconds; 0 where the model says nothing: f64, heads of one unit, or an R that fits no split over the card.
double rnn_step_floor_us(const Problem& problem);

}  // namespace bench
