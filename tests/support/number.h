// SPDX-License-Identifier: Apache-2.0
// Data types as the tests see them: every value is a pair of doubles that the dtype can represent; integers that a
// double cannot hold are the sum of the two. Written apart from
// the library's own conversions so that an error there is seen.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace support {

using Value = std::complex<double>;
using Values = std::vector<Value>;
using Bytes = std::vector<unsigned char>;

// std::abs, without the work for what is not complex.
inline double modulus(Value value) { return value.imag() == 0 ? std::abs(value.real()) : std::abs(value); }

size_t size_of(int32_t dtype);
bool is_complex(int32_t dtype);
const char* name_of(int32_t dtype);
int32_t dtype_named(std::string_view name);  // 0 if there is none

bool is_integer(int32_t dtype);
// The one pair of an integer, and the integer of a pair.
Value of_integer(int64_t x);
int64_t integer_of(Value value);

// The dtype of states and arithmetic, and the 64-bit dtype of the same kind; integers have their own width alone.
int32_t state_dtype(int32_t dtype);
int32_t wide_dtype(int32_t dtype);

// Half the distance from 1 to the next larger number of a real component.
double unit_roundoff(int32_t dtype);
// Distance between neighbouring numbers of a real component at `magnitude`, subnormal spacing included.
double ulp(int32_t dtype, double magnitude);
// The largest finite number of a real component.
double largest(int32_t dtype);

Value load(const unsigned char* from, int32_t dtype);
// Rounds to nearest, ties to even, once from double.
void store(unsigned char* to, int32_t dtype, Value value);
Value rounded(int32_t dtype, Value value);

}  // namespace support
