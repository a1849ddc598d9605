// SPDX-License-Identifier: Apache-2.0
// The cells of the library's table, by the numbers of the header. Tests take from the table which cells there are, what
// they are called and how much of what they have; what they compute tests know themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "math/cell_table.h"

namespace support {

// Throws std::out_of_range for other numbers.
const flashscan::CellRow& cell_row(int32_t cell);
int32_t cell_of(const flashscan::CellRow& row);
// 0 if there is none; by the word of problem lines.
int32_t cell_named(const std::string& word);
// These list all cells by their numbers: the words of problem lines, and the names that bindings have.
std::vector<std::string> cell_words();
std::vector<std::string> cell_names();
std::vector<int32_t> all_cells();

}  // namespace support
