// SPDX-License-Identifier: Apache-2.0
/*
 * Every target against the reference, within the bound of support/bound.cpp.
 *
 *   build/cpu/tests/flashscan_numeric_linear                             all; --gtest_output=json:FILE for a record
 *   build/sm90a/tests/flashscan_numeric_linear --gtest_filter='*cuda*'   all on the GPU
 *   FLASHSCAN_TEST_EXACT=1 compute-sanitizer --tool memcheck \
 *       build/sm90a/tests/flashscan_numeric_linear --gtest_filter='Small*cuda_auto*'
 *   FLASHSCAN_TEST_TARGET=cuda_auto FLASHSCAN_TEST_CASE='linear bf16 BTC b1 t300 c4 reverse seed7' \
 *       build/sm90a/tests/flashscan_numeric_linear --gtest_filter='Repro.*'
 *
 * The last is one case, as a failure prints it. FLASHSCAN_TEST_EXACT=1 leaves out the sentinels around CUDA buffers so
 * that the sanitizer sees their true ends.
 */
#include <gtest/gtest.h>

#include <cstdlib>

#include "numeric/problems.h"
#include "support/check.h"

namespace numeric {
namespace {

using support::all_targets;
using support::Case;
using support::cases_on;
using support::kernel_targets;
using support::planner_targets;

// The planner's choice and a kernel.
std::vector<support::Target> cuda_targets(const char* kernel) {
    return {{FLASHSCAN_BACKEND_CUDA, ""}, {FLASHSCAN_BACKEND_CUDA, kernel}};
}

class Linear : public testing::TestWithParam<Case> {};

TEST_P(Linear, MatchesReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    support::check_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Small, Linear, testing::ValuesIn(cases_on(all_targets(), pairs(Size::tiny))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Single, Linear, testing::ValuesIn(cases_on(all_targets(), singles())), support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Pairs, Linear, testing::ValuesIn(cases_on(all_targets(), pairs(Size::varied))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Shapes, Linear, testing::ValuesIn(cases_on(planner_targets(), shapes())),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Chunks, Linear, testing::ValuesIn(cases_on(kernel_targets(), pairs(Size::chunks))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Steps, Linear, testing::ValuesIn(cases_on(cuda_targets("decode"), pairs(Size::few))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Rows, Linear, testing::ValuesIn(cases_on(cuda_targets("rows"), pairs(Size::aligned))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Columns, Linear, testing::ValuesIn(cases_on(cuda_targets("columns"), pairs(Size::columns))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(GatesOfRows, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("rows"),
                                                    shared_gates({"BCT b2 t416 c40", "BCT b3 t2064 c5",
                                                                  "BCT b2 t1037 c10", "BCT b1 t2064 c9 sequences7"}))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(GatesOfColumns, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("columns"),
                                                    shared_gates({"BTC b2 t203 c98", "BTC b3 t37 c64", "BTC b40 t9 c32",
                                                                  "BTC b1 t2050 c34 sequences7"}))),
                         support::name_of_case);
// Up to 8 warps of a block that share gates, of which some have no rows; one chunk and several.
INSTANTIATE_TEST_SUITE_P(SharedGatesOfRows, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("rows"),
                                                    shared_gates({"BCT b15 t416 c18", "BCT b15 t8208 c18",
                                                                  "BCT b5 t192 c1"},
                                                                 {"b", "c", "bc"}))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedGatesOfColumns, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("columns"),
                                                    shared_gates({"BTC b7 t270 c66", "BTC b7 t530 c320"}, {"b"}))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(GatesOfChunks, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("chunked"),
                                                    shared_gates({"BTC b2 t203 c35", "BCT b2 t1041 c7",
                                                                  "BTC b1 t600 c9 sequences5",
                                                                  "BCT b3 t300 c9 invariant"}))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Skewed, Linear, testing::ValuesIn(cases_on(cuda_targets("columns"), pairs(Size::skewed))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Ragged, Linear, testing::ValuesIn(cases_on(cuda_targets("rows"), pairs(Size::ragged))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(Groups, Linear, testing::ValuesIn(cases_on(cuda_targets("rows"), chunk_groups())),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(FewLongRows, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("few_long_rows"), pairs(Size::few_long_rows))),
                         support::name_of_case);
INSTANTIATE_TEST_SUITE_P(ShortRows, Linear,
                         testing::ValuesIn(cases_on(cuda_targets("short_rows"), pairs(Size::short_rows))),
                         support::name_of_case);

TEST(Repro, Case) {
    const char* text = std::getenv("FLASHSCAN_TEST_CASE");
    if (text == nullptr) GTEST_SKIP() << "FLASHSCAN_TEST_CASE names no case";
    const char* wanted = std::getenv("FLASHSCAN_TEST_TARGET");
    int ran = 0;
    for (const support::Target& target : all_targets()) {
        if (wanted != nullptr && support::text_of(target) != wanted) continue;
        if (wanted == nullptr && support::unavailable(target.backend) != nullptr) continue;
        SKIP_UNLESS_AVAILABLE(target);
        SCOPED_TRACE(support::text_of(target));
        support::check_case({support::problem_of(text), target});
        ++ran;
    }
    EXPECT_GT(ran, 0) << "no target is called " << (wanted != nullptr ? wanted : "");
}

TEST(Repro, TextRoundTrips) {
    for (const auto& list :
         {pairs(Size::tiny), pairs(Size::varied), pairs(Size::chunks), pairs(Size::aligned), pairs(Size::columns),
          pairs(Size::few_long_rows), pairs(Size::ragged), pairs(Size::short_rows), pairs(Size::skewed), singles(),
          shapes(), extremes(), chunk_groups()})
        for (const support::Problem& problem : list) {
            const std::string text = support::text_of(problem);
            EXPECT_EQ(support::text_of(support::problem_of(text)), text);
        }
    EXPECT_THROW(support::problem_of("linear f32 BTC q3"), std::invalid_argument);
}

}  // namespace
}  // namespace numeric
