// SPDX-License-Identifier: Apache-2.0
// The named operators of the library's table, by the numbers of the header. Tests take from the table which operators
// there are and what they are called; what they compute tests know themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "math/operator_table.h"

namespace support {

// Throws std::out_of_range for other numbers.
const flashscan::OperatorRow& operator_row(int32_t kind);
int32_t kind_of(const flashscan::OperatorRow& row);
// 0 if there is none.
int32_t operator_named(const std::string& word);
// Words by number, from ADD on without gaps.
std::vector<std::string> operator_words();
bool takes(int32_t kind, int32_t dtype);
// All but custom ones; those on numbers; and those that take numbers of a dtype.
std::vector<int32_t> named_operators();
std::vector<int32_t> number_operators();
std::vector<int32_t> operators_on(int32_t dtype);

}  // namespace support
