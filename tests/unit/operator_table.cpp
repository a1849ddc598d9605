// SPDX-License-Identifier: Apache-2.0
// The table of operators against everything that it does not generate: the header, what other languages say, documents.
// Whoever adds a row reads here what else has to know it.
#include <flashscan/flashscan.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/types.h"
#include "math/operators.h"
#include "support/call.h"
#include "support/operators.h"

namespace unit {
namespace {

using namespace flashscan;

std::string source(const std::string& path) {
    std::ifstream file(FLASHSCAN_SOURCE_DIR "/" + path);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(text.str().empty()) << path << " cannot be read";
    return text.str();
}

std::map<std::string, int> constants_of_the_header() {
    const std::string header = source("include/flashscan/flashscan.h");
    const std::regex enumerator("FLASHSCAN_OPERATOR_(\\w+) = (\\d+),?\n");
    std::map<std::string, int> constants;
    for (auto found = std::sregex_iterator(header.begin(), header.end(), enumerator); found != std::sregex_iterator();
         ++found)
        constants[(*found)[1]] = std::stoi((*found)[2]);
    return constants;
}

TEST(OperatorTable, HasTheConstantsOfTheHeader) {
    std::map<std::string, int> rows;
    for (const OperatorRow& row : operator_rows) rows[row.constant] = FLASHSCAN_OPERATOR_ADD + row.number;
    EXPECT_EQ(rows, constants_of_the_header());
    EXPECT_EQ(rows.size(), std::size(operator_rows)) << "two rows have one constant";
}

TEST(OperatorTable, HasNumbersWithoutGapsAndWordsOfItsOwn) {
    std::set<int> numbers;
    std::set<std::string> words;
    for (const OperatorRow& row : operator_rows) {
        numbers.insert(row.number);
        words.insert(row.word);
        EXPECT_EQ(&row_of(static_cast<OperatorKind>(row.number)), &row);
    }
    EXPECT_EQ(numbers.size(), std::size(operator_rows));
    EXPECT_EQ(*numbers.begin(), 0);
    EXPECT_EQ(*numbers.rbegin(), static_cast<int>(std::size(operator_rows)) - 1);
    EXPECT_EQ(words.size(), std::size(operator_rows));
}

// A place that has to name every operator, {0} its constant and {1} its word; custom ones have a place of their own.
struct Mention {
    const char* path;
    const char* text;
    bool custom = false;
};
constexpr Mention mentions[] = {
    {"tests/abi/layout.c", "FLASHSCAN_OPERATOR_{0} == ", true},
    {"docs/operators.md", "\\b{1}\\b", true},
    {"bindings/python/src/flashscan/_library.py", "\\bOPERATOR_{0}\\b", true},
    {"bindings/python/src/flashscan/_operator.py", "lib.OPERATOR_{0}\\b", true},
    {"bindings/rust/flashscan-sys/src/lib.rs", "\\bFLASHSCAN_OPERATOR_{0} = ", true},
    {"bindings/rust/flashscan/src/scan.rs", "sys::FLASHSCAN_OPERATOR_{0}\\b"},
    {"bindings/julia/FlashScan/src/operator.jl", "const KINDS = \\([^)]*\\b{1} = "},
};

TEST(OperatorTable, IsKnownEverywhere) {
    for (const Mention& mention : mentions) {
        const std::string text = source(mention.path);
        for (const OperatorRow& row : operator_rows) {
            if (row.number == static_cast<int>(OperatorKind::custom) && !mention.custom) continue;
            const std::string wanted = fmt::format(fmt::runtime(mention.text), row.constant, row.word);
            EXPECT_TRUE(std::regex_search(text, std::regex(wanted))) << mention.path << " lacks " << wanted;
        }
    }
}

// Every operator on numbers that its row says has a kernel on the CPU, and no other.
TEST(OperatorTable, SaysWhatTheKernelsTake) {
    for (const OperatorRow& row : operator_rows) {
        if (!row.on_numbers) continue;
        for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype) {
            flashscan_operator_desc desc{};
            desc.struct_size = sizeof desc;
            desc.dtype = dtype;
            desc.kind = support::kind_of(row);
            desc.batch = desc.time = desc.channels = 2;
            for (const char* kernel : {"numbers", "reference"}) {
                flashscan_options options{};
                options.struct_size = sizeof options;
                options.kernel = kernel;
                const support::Plan plan(desc, options);
                if (support::takes(desc.kind, dtype))
                    EXPECT_TRUE(plan) << row.word << " " << support::name_of(dtype) << ": " << plan.message();
                else
                    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_INVALID_ARGUMENT) << row.word << " " << plan.message();
            }
        }
    }
}

// x o identity is x, and slopes are what the row says.
template <typename T>
void check_formulas() {
    combine::for_each_operator<T>([](auto op) {
        using Op = decltype(op);
        const T identity = combine::Identity<Op, T>::get();
        for (const double x : {-3.0, -0.5, 0.0, 1.0, 7.0}) {
            const T value = static_cast<T>(static_cast<int64_t>(4 * x));
            EXPECT_EQ(Op::combine(identity, value), value) << combine::RowOf<Op>::number << " of " << x;
            EXPECT_EQ(Op::combine(value, identity), value) << combine::RowOf<Op>::number << " of " << x;
            if constexpr (!combine::RowOf<Op>::has_slopes && !std::is_integral_v<T>) {
                EXPECT_EQ(Op::left_slope(value, T(2)), T(1));
                EXPECT_EQ(Op::right_slope(T(2), value), T(1));
            }
        }
    });
}
TEST(OperatorTable, HasFormulasWithTheirIdentities) {
    check_formulas<float>();
    check_formulas<double>();
    check_formulas<int32_t>();
    check_formulas<int64_t>();
    check_formulas<uint8_t>();
}

}  // namespace
}  // namespace unit
