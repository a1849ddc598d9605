// SPDX-License-Identifier: Apache-2.0
// Compares outputs with the double precision reference kernel of the CPU backend, on all rows or on some.
#pragma once

#include <string>

#include "tensors.h"

namespace bench {

struct Verdict {
    // The error and the bound of the output whose error is largest beside its bound. The error is the largest
    // difference divided by the largest value; for scans it is the difference of the number that is largest beside its
    // own tolerance, divided by the largest finite value that is expected.
    double error = 0;
    double bound = 0;
    bool any = false;  // whether an output was counted in
    bool passed = false;
    std::string what;  // what was compared
    // Counts an output in.
    void add(double new_error, double new_bound);
    // Passes a check that compared nothing because all outputs are sums too long to be compared; `what` then says so.
    void accept_nothing(bool left_out) { passed = passed || (left_out && !any); }
};

// `count` indices of an axis, evenly spread and ending with the last one.
struct Picks {
    int64_t first, step, count;
    Picks(int64_t extent, int64_t wanted);
};

std::vector<double> widen(const std::vector<std::byte>& data, int32_t dtype);
// What `widen` made of integers, as memory holds them.
std::vector<std::byte> integers_of(const std::vector<double>& values, int32_t dtype);
inline double roundoff(int32_t dtype) { return support::unit_roundoff(dtype); }
// The largest difference over the largest value expected; infinite where one of `got` is not finite.
double relative_error(const std::vector<double>& got, const std::vector<double>& expected);

// Call after the outputs were computed.
Verdict check_outputs(Machine& machine, const Problem& problem, const Tensors& tensors);
Verdict check_rnn_outputs(Machine& machine, const Problem& problem, const Tensors& tensors);
Verdict check_operator_outputs(Machine& machine, const Problem& problem, const Tensors& tensors);
// Linear recurrences, gated layers and selective scans.
Verdict check_scan_outputs(Machine& machine, const Problem& problem, const Tensors& tensors);

}  // namespace bench
