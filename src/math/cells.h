// SPDX-License-Identifier: Apache-2.0
// The formulas of all cells, by the rows of the table.
#pragma once

#include "math/cell_table.h"
#include "math/rnn.h"
#include "math/slstm.h"

namespace flashscan {

namespace cell {

template <typename Formula>
constexpr bool is_as(const CellRow& row) {
    return Formula::gates == row.gates && Formula::biases == row.biases && Formula::states == row.states &&
           Formula::resets_before == row.resets_before;
}
#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, ...) \
    static_assert(is_as<formula>(cell_rows[number]), "the formula has other counts than its row");
FLASHSCAN_CELLS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW

template <typename Formula>
struct Of {
    using Type = Formula;
};

}  // namespace cell

// visit(cell::Of<Formula>) for the formula of a cell.
template <typename Visit>
auto with_formula(Cell cell, const Visit& visit) {
    switch (cell) {
#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, ...) \
    case Cell::name: return visit(cell::Of<formula>{});
        FLASHSCAN_CELLS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
    }
    __builtin_trap();  // the interface takes no other cell
}

}  // namespace flashscan
