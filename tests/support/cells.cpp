// SPDX-License-Identifier: Apache-2.0
#include "support/cells.h"

#include <flashscan/flashscan.h>

#include <stdexcept>

namespace support {

using flashscan::cell_rows;
using flashscan::CellRow;

int32_t cell_of(const CellRow& row) { return FLASHSCAN_CELL_LSTM + row.number; }

const CellRow& cell_row(int32_t cell) {
    for (const CellRow& row : cell_rows)
        if (cell_of(row) == cell) return row;
    throw std::out_of_range("no cell has the number " + std::to_string(cell));
}

int32_t cell_named(const std::string& word) {
    for (const CellRow& row : cell_rows)
        if (word == row.word) return cell_of(row);
    return 0;
}

std::vector<std::string> cell_words() {
    std::vector<std::string> words;
    for (const CellRow& row : cell_rows) words.emplace_back(row.word);
    return words;
}

std::vector<std::string> cell_names() {
    std::vector<std::string> names;
    for (const CellRow& row : cell_rows) names.emplace_back(row.name);
    return names;
}

std::vector<int32_t> all_cells() {
    std::vector<int32_t> cells;
    for (const CellRow& row : cell_rows) cells.push_back(cell_of(row));
    return cells;
}

}  // namespace support
