// SPDX-License-Identifier: Apache-2.0
// The expected results of a problem with the error that each may have: the one place where tolerances come from.
#pragma once

#include <functional>

#include "support/call.h"

namespace support {

struct Expected {
    Values value;
    std::vector<double> tolerance;  // of the modulus, one per value
};

// Error over tolerance; infinite where one is finite and the other is not.
double excess(Value got, Value want, double tolerance);

struct Reference {
    Expected output, state_out, grad_input, grad_gate, grad_state_in;
};

// Gives the exact results of one pass of a problem in 64 bits.
using Oracle = std::function<Outcome(const Problem& problem, const Data& data, bool backward)>;
// The CPU kernel "reference".
Outcome linear_reference(const Problem& problem, const Data& data, bool backward);

// Fills in the tolerances of one pass beside the values of `reference`, which may be without some gradients. Backward reads
// data.output.
void set_tolerances(const Problem& problem, const Data& data, bool backward, Reference& reference);

// Runs the oracle forward and backward, and fills data.output with its rounded OUTPUT, which is what backward reads.
Reference reference_of(const Problem& problem, Data& data, const Oracle& oracle = linear_reference);

}  // namespace support
