// SPDX-License-Identifier: Apache-2.0
// Compares outputs with the double precision reference kernel of the CPU backend, on all rows or on some.
#pragma once

#include <string>

#include "tensors.h"

namespace bench {

struct Verdict {
    double error = 0;  // largest difference over the largest value, worst of the outputs
    double bound = 0;
    bool passed = false;
    std::string what;  // what was compared
};

// Call after the outputs were computed.
Verdict check_outputs(Machine& machine, const Problem& problem, const Tensors& tensors);

}  // namespace bench
