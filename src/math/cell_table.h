// SPDX-License-Identifier: Apache-2.0
// The cells of recurrent networks, a row each: what the core, the C interface, the kernels of both backends, the tests
// and the bench driver know of a cell they take from here. A new cell is a formula in math/rnn.h, a row here and an
// enumerator in flashscan.h; tests say what else has to know it.
#pragma once

#include <cstdint>

// ROW(name, CONSTANT, number, word, formula, gates, biases, states, resets_before)
//
//     name            Cell::name
//     CONSTANT        FLASHSCAN_CELL_CONSTANT of the header
//     number          that of the constant, counted from LSTM; rows stand in the order of their numbers
//     word            in descriptions, in problem lines of tests and of the bench driver
//     formula         of math/rnn.h
//     gates, biases   their names, in the order of WEIGHT and of BIAS
//     states          their names, h first
//     resets_before   the product of the last gate takes the first gate times h in place of h: two products a step
#define FLASHSCAN_CELLS(ROW)                                                                                        \
    ROW(lstm, LSTM, 0, "lstm", LstmCell, "i f z o", "i f z o", "h c", false)                                        \
    ROW(gru, GRU, 1, "gru", GruCell, "r z n", "r z n rn", "h", false)                                               \
    ROW(elman, ELMAN, 2, "elman", ElmanCell<false>, "h", "h", "h", false)                                           \
    ROW(slstm, SLSTM, 3, "slstm", SlstmCell, "i f z o", "i f z o", "h c n m", false)                                \
    ROW(gru_reset_before, GRU_RESET_BEFORE, 4, "gru-reset-before", GruResetBeforeCell, "r z n", "r z n", "h", true) \
    ROW(elman_relu, ELMAN_RELU, 5, "elman-relu", ElmanCell<true>, "h", "h", "h", false)                             \
    ROW(mgu, MGU, 6, "mgu", MguCell, "f n", "f n", "h", true)

namespace flashscan {

#define FLASHSCAN_ROW(name, CONSTANT, number, ...) name = number,
enum class Cell : int32_t {
    FLASHSCAN_CELLS(FLASHSCAN_ROW)
};
#undef FLASHSCAN_ROW

struct CellRow {
    const char* name;
    const char* constant;
    const char* word;
    int32_t number;
    int gates, biases, states;
    bool resets_before;
};

constexpr int words_in(const char* text) {
    int count = 1;
    for (; *text != 0; ++text) count += *text == ' ' ? 1 : 0;
    return count;
}

#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, gates, biases, states, resets_before) \
    CellRow{#name, #CONSTANT, word, number, words_in(gates), words_in(biases), words_in(states), resets_before},
inline constexpr CellRow cell_rows[] = {FLASHSCAN_CELLS(FLASHSCAN_ROW)};
#undef FLASHSCAN_ROW
inline constexpr int32_t cell_count = static_cast<int32_t>(sizeof cell_rows / sizeof cell_rows[0]);

constexpr const CellRow& row_of(Cell cell) { return cell_rows[static_cast<int32_t>(cell)]; }

constexpr bool rows_are_in_order() {
    for (int32_t i = 0; i < cell_count; ++i)
        if (cell_rows[i].number != i) return false;
    return true;
}
static_assert(rows_are_in_order(), "rows stand in the order of their numbers, without gaps");

}  // namespace flashscan
