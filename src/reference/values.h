// SPDX-License-Identifier: Apache-2.0
// Reading and writing arrays in double, or as integers, and the sequences of a call.
#pragma once

#include <complex>
#include <vector>

#include "core/sequences.h"
#include "math/number.h"

namespace flashscan::reference {

using Wide = std::complex<double>;

// Element `index` of a buffer of real or complex numbers of `dtype`, and its store with one rounding from float or
// double.
Wide load(const void* data, Dtype dtype, int64_t index);
void store(void* data, Dtype dtype, int64_t index, Wide value);
// Calls f with a number of the type that is exact for data of `dtype`: double, complex or that of the integers.
template <typename F>
auto with_exact_number(Dtype dtype, F&& f) {
    if (dtype == Dtype::i32) return f(int32_t{});
    if (dtype == Dtype::i64) return f(int64_t{});
    if (dtype == Dtype::u8) return f(uint8_t{});
    return is_complex(dtype) ? f(Complex<double>{}) : f(double{});
}

// Element `from_index` of a buffer as element `index` of another.
void convert(void* data, Dtype dtype, int64_t index, const void* from, Dtype from_dtype, int64_t from_index);
// The identity of an operator on numbers.
void store_identity(void* data, Dtype dtype, int64_t index, OperatorKind kind);
int64_t load_offset(const void* data, Dtype dtype, int64_t index);

// One sequence: row `b` of the batch, steps [begin, end) of it, row `state` of the states.
struct Sequence {
    int64_t b, begin, end, state;
    int64_t length() const { return end - begin; }
    // The step that is i-th in the order of computation.
    int64_t step(Direction direction, int64_t i) const {
        return direction == Direction::forward ? begin + i : end - 1 - i;
    }
};
Sequence sequence_of(const Sequences& problem, const void* seq_offsets, int64_t row);
std::vector<Sequence> sequences_of(const Sequences& problem, const void* seq_offsets);

}  // namespace flashscan::reference
