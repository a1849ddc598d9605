// SPDX-License-Identifier: Apache-2.0
// The associative operators, a row each: what the core, the C interface, the kernels of both backends and the tests
// know of an operator they take from here. A new operator on numbers is a formula in math/operators.h, a row here and
// an enumerator in flashscan.h; tests say what else has to know it.
#pragma once

namespace flashscan {

// What a number can be.
enum NumberKind : unsigned {
    real_number = 1,
    complex_number = 2,
    integer_number = 4
};

}  // namespace flashscan

// ROW(name, CONSTANT, number, word, formula, takes, has_slopes, has_index)
//
//     name         OperatorKind::name of the core
//     CONSTANT     FLASHSCAN_OPERATOR_CONSTANT of the header
//     number       that of the constant, counted from ADD
//     word         in descriptions, in bindings and in tests
//     formula      combine::formula of math/operators.h
//     takes        NumberKind of the elements
//     has_slopes   derivatives depend on the operands, and so backward reads INPUT
//     has_index    the result is one of the operands, and forward has INDEX: which step it comes from
#define FLASHSCAN_NUMBER_OPERATORS(ROW)                                                       \
    ROW(add, ADD, 0, "add", Add, real_number | complex_number | integer_number, false, false) \
    ROW(mul, MUL, 1, "mul", Mul, real_number | complex_number | integer_number, true, false)  \
    ROW(min, MIN, 2, "min", Min, real_number | integer_number, true, true)                    \
    ROW(max, MAX, 3, "max", Max, real_number | integer_number, true, true)                    \
    ROW(logaddexp, LOGADDEXP, 4, "logaddexp", LogAddExp, real_number, true, false)            \
    ROW(bit_and, AND, 8, "and", And, integer_number, false, false)                            \
    ROW(bit_or, OR, 9, "or", Or, integer_number, false, false)                                \
    ROW(bit_xor, XOR, 10, "xor", Xor, integer_number, false, false)

// Operators on other elements, whose kernels are their own: ROW(name, CONSTANT, number, word).
#define FLASHSCAN_OTHER_OPERATORS(ROW) \
    ROW(matmul, MATMUL, 5, "matmul")   \
    ROW(affine, AFFINE, 6, "affine")   \
    ROW(custom, CUSTOM, 7, "custom")

namespace flashscan {

struct OperatorRow {
    const char* constant;
    const char* word;
    int number;
    bool on_numbers;
    unsigned takes;
    bool has_slopes;
    bool has_index;
};

#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, takes, has_slopes, has_index) \
    OperatorRow{#CONSTANT, word, number, true, takes, has_slopes, has_index},
#define FLASHSCAN_OTHER_ROW(name, CONSTANT, number, word) \
    OperatorRow{#CONSTANT, word, number, false, real_number | complex_number, true, false},
inline constexpr OperatorRow operator_rows[] = {FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)
                                                    FLASHSCAN_OTHER_OPERATORS(FLASHSCAN_OTHER_ROW)};
#undef FLASHSCAN_ROW
#undef FLASHSCAN_OTHER_ROW

}  // namespace flashscan
