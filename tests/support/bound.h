// SPDX-License-Identifier: Apache-2.0
// The expected results of a problem with the error that each may have: the one place where tolerances come from.
#pragma once

#include "support/data.h"

namespace support {

struct Expected {
    Values value;
    std::vector<double> tolerance;  // of the modulus, one per value
};

struct Reference {
    Expected output, state_out, grad_input, grad_gate, grad_state_in;
};

// Runs the oracle, the CPU kernel "reference" in 64 bits, forward and backward, and fills data.output with its rounded
// OUTPUT, which is what backward reads.
Reference reference_of(const Problem& problem, Data& data);

}  // namespace support
