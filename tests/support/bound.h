// SPDX-License-Identifier: Apache-2.0
// The expected results of linear recurrences, and the error that each number may have.
#pragma once

#include <cmath>
#include <functional>

#include "support/call.h"

namespace support {

struct Expected {
    Values value;
    std::vector<double> tolerance;  // of each component, one per value
};

// Error over tolerance; infinite where one is finite and the other is not, 0 where neither is.
double excess(Value got, Value want, double tolerance);

// How many roundings, at the most, a step of `time` takes part in by the order in which steps are combined; and what
// sums of n elements add, in roundings of the sum of moduli.
inline double depth_of(int64_t time) { return 16 + 2 * std::log2(static_cast<double>(time) + 1); }
inline double additions_of(double n) { return 32 + 8 * std::sqrt(n); }

struct Reference {
    Expected output, state_out, grad_input, grad_gate, grad_state_in;
};

// Gives the exact results of one pass of a problem in 64 bits.
using Oracle = std::function<Outcome(const Problem& problem, const Data& data, bool backward)>;
// The CPU kernel "reference".
Outcome linear_reference(const Problem& problem, const Data& data, bool backward);

// Fills in the tolerances of one pass beside the values of `reference`, which may be without some gradients. Backward
// reads data.output.
void set_tolerances(const Problem& problem, const Data& data, bool backward, Reference& reference);

// Runs the oracle forward and backward, and fills data.output with its rounded OUTPUT, which is what backward reads.
Reference reference_of(const Problem& problem, Data& data, const Oracle& oracle = linear_reference);

}  // namespace support
