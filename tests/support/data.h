// SPDX-License-Identifier: Apache-2.0
// Random data of a problem, as values that its dtypes represent exactly, in [B, T, C] order.
#pragma once

#include <vector>

#include "support/problem.h"

namespace support {

struct Data {
    Values input, gate, state_in, output, grad_output, grad_state_out;
    std::vector<unsigned char> reset;
    std::vector<int64_t> offsets;
};

// A number in [0, 1) that depends on nothing but its arguments.
double uniform(uint64_t seed, uint64_t stream, uint64_t index);

// RESET for `count` steps, and SEQ_OFFSETS: uneven, some sequences empty; half of the seeds leave a rest that belongs
// to none.
std::vector<unsigned char> make_reset(uint64_t seed, int64_t count);
std::vector<int64_t> make_offsets(uint64_t seed, int64_t time, int64_t sequences);

// All but `output`, which is the rounded result of forward.
Data make_data(const Problem& problem);

// One sequence: steps [begin, end) of row `batch`, row `state` of the states.
struct Sequence {
    int64_t batch, begin, end, state;
    int64_t length() const { return end - begin; }
    // The step that is i-th in the order of computation.
    int64_t step(bool reverse, int64_t i) const { return reverse ? end - 1 - i : begin + i; }
    int64_t step(const Problem& problem, int64_t i) const { return step(problem.reverse, i); }
};
std::vector<Sequence> sequences_of(const Problem& problem, const Data& data);
// `offsets` are empty unless packed.
std::vector<Sequence> sequences_of(int64_t batch, int64_t time, const std::vector<int64_t>& offsets);
// Steps from here on belong to no sequence.
int64_t written_time(const Problem& problem, const Data& data);

// a, da/dg, and the relative error in units of roundoff that an implementation of the gate form may have in either.
struct Gate {
    Value value, derivative;
    double value_error, derivative_error;
};
Gate gate_of(int32_t form, Value g);

}  // namespace support
