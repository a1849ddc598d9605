// SPDX-License-Identifier: Apache-2.0
// The table of cells against everything that it does not generate: the header, what other languages say, documents.
// Whoever adds a row reads here what else has to know it.
#include <flashscan/flashscan.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "fuzz/rnn_step.h"
#include "math/cells.h"
#include "support/cells.h"

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

TEST(CellTable, HasTheConstantsOfTheHeader) {
    const std::string header = source("include/flashscan/flashscan.h");
    const std::regex enumerator("FLASHSCAN_CELL_(\\w+) = (\\d+)");
    std::map<std::string, int> constants, rows;
    for (auto found = std::sregex_iterator(header.begin(), header.end(), enumerator); found != std::sregex_iterator();
         ++found)
        constants[(*found)[1]] = std::stoi((*found)[2]);
    for (const CellRow& row : cell_rows) rows[row.constant] = support::cell_of(row);
    EXPECT_EQ(rows, constants);
}

TEST(CellTable, HasNamesOfItsOwn) {
    std::set<std::string> names, words;
    for (const CellRow& row : cell_rows) {
        names.insert(row.name);
        words.insert(row.word);
        EXPECT_EQ(&row_of(static_cast<Cell>(row.number)), &row);
    }
    EXPECT_EQ(std::ssize(names), cell_count);
    EXPECT_EQ(std::ssize(words), cell_count);
}

// The arrays of an element's step, as kernels of every backend hold them.
TEST(CellTable, HasFormulasThatStepForwardAndBackward) {
    for (const CellRow& row : cell_rows)
        with_formula(static_cast<Cell>(row.number), [&](auto formula) {
            using Formula = typename decltype(formula)::Type;
            double pre[Formula::biases] = {}, state[Formula::states] = {}, keep[Formula::kept] = {};
            for (double& x : pre) x = 0.5;
            Formula::forward(pre, state, keep);
            EXPECT_NE(state[0], 0) << row.name;
            if (Formula::keeps_h) {
                EXPECT_EQ(keep[Formula::kept - 1], state[0]) << row.name;
            }
            double previous[Formula::states] = {}, carry[Formula::states] = {1}, d_pre[Formula::biases];
            for (double& x : d_pre) x = std::nan("");
            cell::backward<Formula>(keep, previous, carry, d_pre);
            if constexpr (Formula::resets_before) {
                EXPECT_EQ(Formula::reset(0.0, 3.0), 1.5) << row.name;
                EXPECT_EQ(Formula::backward_reset(keep, previous, 2.0, d_pre), 2 * keep[0]) << row.name;
            }
            for (const double x : d_pre) EXPECT_TRUE(std::isfinite(x)) << row.name;
        });
}

// Which refuse cells that they do not know.
TEST(CellTable, HasStepsOfTheFuzzers) {
    for (const CellRow& row : cell_rows) {
        const fuzz::Step step{support::cell_of(row), {0.25L, -0.5L, 0.75L, 0.125L}, {0.5L, 0.25L, 2, 0}};
        fuzz::Real after[4] = {}, d[4] = {1, 1, 1, 1}, dr[4] = {};
        EXPECT_NO_THROW(step.forward(after)) << row.name;
        EXPECT_NO_THROW(step.backward(d, dr)) << row.name;
        EXPECT_TRUE(after[0] != 0 && dr[row.gates - 1] != 0) << row.name;
    }
}

// A place that has to name every cell, {0} its constant and {1} its name.
struct Mention {
    const char* path;
    const char* text;
};
constexpr Mention mentions[] = {
    {"include/flashscan/flashscan.h", " \\*     {0} "},
    {"docs/networks.md", "\n\\| {0} \\|"},
    {"tests/abi/layout.c", "FLASHSCAN_CELL_{0} == "},
    {"bindings/python/src/flashscan/_rnn.py", "\n    \"{1}\": \\("},
    {"bindings/rust/flashscan-sys/src/lib.rs", "\\bFLASHSCAN_CELL_{0} = "},
    {"bindings/rust/flashscan/src/rnn.rs", " = FLASHSCAN_CELL_{0}, \"{1}\","},
    {"bindings/julia/FlashScan/src/rnn.jl", "\n    {1} = \\("},
};

TEST(CellTable, IsKnownEverywhere) {
    for (const Mention& mention : mentions) {
        const std::string text = source(mention.path);
        for (const CellRow& row : cell_rows) {
            const std::string wanted = fmt::format(fmt::runtime(mention.text), row.constant, row.name);
            EXPECT_TRUE(std::regex_search(text, std::regex(wanted))) << mention.path << " lacks " << wanted;
        }
    }
}

}  // namespace
}  // namespace unit
