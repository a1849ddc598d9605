// SPDX-License-Identifier: Apache-2.0
#include "support/operators.h"

#include <flashscan/flashscan.h>

#include <algorithm>
#include <stdexcept>

#include "support/number.h"

namespace support {
namespace {

using flashscan::operator_rows;
using flashscan::OperatorRow;

template <typename Wanted>
std::vector<int32_t> kinds_where(Wanted wanted) {
    std::vector<int32_t> kinds;
    for (const OperatorRow& row : operator_rows)
        if (kind_of(row) != FLASHSCAN_OPERATOR_CUSTOM && wanted(row)) kinds.push_back(kind_of(row));
    return kinds;
}

}  // namespace

int32_t kind_of(const OperatorRow& row) { return FLASHSCAN_OPERATOR_ADD + row.number; }

const OperatorRow& operator_row(int32_t kind) {
    for (const OperatorRow& row : operator_rows)
        if (kind_of(row) == kind) return row;
    throw std::out_of_range("no operator has the number " + std::to_string(kind));
}

int32_t operator_named(const std::string& word) {
    for (const OperatorRow& row : operator_rows)
        if (word == row.word) return kind_of(row);
    return 0;
}

std::vector<std::string> operator_words() {
    std::vector<std::string> words;
    for (int32_t n = 0; n < static_cast<int32_t>(std::size(operator_rows)); ++n)
        words.emplace_back(operator_row(FLASHSCAN_OPERATOR_ADD + n).word);
    return words;
}

bool takes(int32_t kind, int32_t dtype) {
    const unsigned number = is_integer(dtype)   ? flashscan::integer_number
                            : is_complex(dtype) ? flashscan::complex_number
                                                : flashscan::real_number;
    return (operator_row(kind).takes & number) != 0;
}

std::vector<int32_t> named_operators() {
    return kinds_where([](const OperatorRow&) { return true; });
}
std::vector<int32_t> number_operators() {
    return kinds_where([](const OperatorRow& row) { return row.on_numbers; });
}
std::vector<int32_t> operators_on(int32_t dtype) {
    return kinds_where([&](const OperatorRow& row) { return row.on_numbers && takes(kind_of(row), dtype); });
}

}  // namespace support
