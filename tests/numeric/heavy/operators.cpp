// SPDX-License-Identifier: Apache-2.0
// Associative operators against the oracle: large matrices, many products of them, and a million steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "support/operator_check.h"

namespace numeric {
namespace {

using namespace support;

class OperatorCases : public testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorCases, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

// Matrices as large as kernels have tiles for, in few and in many chunks; the largest of all forward only, since the
// oracle takes long for them.
std::vector<OperatorProblem> large_dims() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const char* rest : {"d64 t20 f32 tf32", "d200 t9 f32 tf32", "d64 t200 f32", "d64 t70 bf16", "d128 t90 f32",
                             "d130 t33 f16", "d200 t40 f32", "d256 t30 f32", "d300 t12 bf16", "d512 t6 f32",
                             "d520 t4 f32", "d1024 t2 f32", "d96 t50 f64", "d150 t9 c64", "d260 t5 c128"})
        for (const char* kind : {"matmul", "affine"}) {
            const bool largest = std::string_view(rest).substr(0, 5) == "d1024";
            std::string text = fmt::format("operator {} {} {} b1 c1 {}", largest ? "fwd" : "bwd", kind,
                                           i % 2 == 0 ? "inclusive" : "exclusive", rest);
            if (i % 3 > 0) text += " state-in state-out";
            if (i % 5 < 2) text += " reverse";
            problems.push_back(operator_problem_of(text + " seed" + std::to_string(++i)));
        }
    return problems;
}

// Products of f32 matrices, which have kernels of their own: so many at once that these are taken, whole and in chunks.
std::vector<OperatorProblem> products() {
    std::vector<OperatorProblem> problems;
    for (const char* rest : {"d64 b40 t30 inclusive",
                             "d64 b30 t40 exclusive reverse misaligned",
                             "d64 b150 t9 reduction state-in",
                             "d64 b1 t700 inclusive state-in state-out",
                             "d64 b1 t700 reduction",
                             "d40 b20 c3 t17 BCT exclusive state-in",
                             "d61 b50 t11 inclusive misaligned state-in state-out",
                             "d64 b1 t300 c2 sequences9 inclusive state-in state-out",
                             "d128 b30 t9 inclusive state-out",
                             "d100 b1 t300 exclusive state-in",
                             "d97 b30 t8 reduction reverse",
                             "d256 b20 t5 inclusive",
                             "d256 b1 t60 reduction state-in",
                             "d201 b9 t7 exclusive misaligned state-out",
                             "d512 b2 t5 inclusive state-in",
                             "d390 b3 t4 exclusive reverse",
                             "d512 b1 t9 reduction",
                             "d36 b1 t400 c3 inclusive state-out",
                             "d128 b1 t600 inclusive reverse misaligned state-in state-out",
                             "d130 b1 t250 exclusive",
                             "d128 b1 t601 reduction state-in",
                             "d16 b1 t1000 inclusive",
                             "d16 b1 t9001 inclusive state-in",
                             "d16 b1 t3000 c2 exclusive reverse state-in state-out",
                             "d13 b2 t700 reduction state-in",
                             "d6 b1 t2000 inclusive state-out",
                             "d8 b1 t40000 inclusive",
                             "d32 b1 t400 inclusive misaligned",
                             "d32 b1 t1100 c2 exclusive",
                             "d27 b1 t333 inclusive reverse state-in state-out",
                             "d32 b1 t2000 reduction misaligned state-in",
                             "d64 b40 t9 exclusive tf32 state-in",
                             "d128 b1 t60 reduction tf32"})
        problems.push_back(operator_problem_of("operator fwd matmul f32 " + std::string(rest) + " seed5"));
    return problems;
}

INSTANTIATE_TEST_SUITE_P(OperatorDims, OperatorCases,
                         testing::ValuesIn(cases_on(operator_kernel_targets(), large_dims())), name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorProducts, OperatorCases,
                         testing::ValuesIn(cases_on(operator_kernel_targets(), products())), name_of_operator_case);

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

class OperatorChains : public OperatorOnTarget {};

TEST_P(OperatorChains, AMillionSteps) {
    for (const char* line : {"add f64 t1000000", "logaddexp f64 t1000003 BCT", "matmul d2 f64 t1000000",
                             "affine d2 f64 t999983 reverse", "max f32 t1000000", "add f32 t65536 c16"})
        check_case({operator_problem_of(std::string("operator bwd b1 c1 ") + line), GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Operator, OperatorChains, testing::ValuesIn(operator_kernel_targets()), name_of_target);

}  // namespace
}  // namespace numeric
