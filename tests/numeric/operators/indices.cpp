// SPDX-License-Identifier: Apache-2.0
// INDEX of running minima and maxima: every dtype, mode and feature against the oracle, and values worked out by hand.
#include <gtest/gtest.h>

#include <limits>

#include "support/operator_check.h"
#include "support/operators.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t output_id = FLASHSCAN_ARG_OUTPUT, index_id = FLASHSCAN_ARG_INDEX;

class OperatorIndices : public testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorIndices, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

// Lengths around those at which kernels cut time, with time innermost and not. Small integers tie often.
std::vector<OperatorProblem> problems() {
    std::vector<OperatorProblem> list;
    constexpr const char* modes[] = {"inclusive", "exclusive", "reduction"};
    constexpr const char* rests[] = {"b2 t37 c5",
                                     "b1 t101 c3 sequences7 state-in state-out",
                                     "b3 t20 c1 state-in reverse",
                                     "b1 t61 c2 sequences5 reverse offsets-i32 caller-scratch",
                                     "b2 t50 c4 BCT state-out invariant",
                                     "b1 t9 c17 state-in values-ties",
                                     "b3 t0 c2 state-in",
                                     "b1 t0 c3 sequences2",
                                     "b1 t3000 c2 BCT",
                                     "b2 t4096 c1 reverse state-in values-ties",
                                     "b3 t1024 c2 BCT values-ties reverse",
                                     "b1 t5000 c1 sequences40 reverse",
                                     "b1 t8192 c1 BCT sequences40 state-in values-ties",
                                     "b1 t3000 c70 values-ties",
                                     "b2 t777 c36 reverse state-in state-out",
                                     "b1 t2000 c3 BCT place-misaligned",
                                     "b1 t2000 c1 place-misaligned sequences9"};
    size_t i = 0;
    for (const char* kind : {"min", "max"})
        for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype) {
            if (!takes(operator_named(kind), dtype)) continue;
            for (const char* mode : modes)
                for (const char* rest : rests)
                    list.push_back(operator_problem_of(std::string("operator fwd index ") + kind + " " + mode + " " +
                                                       name_of(dtype) + " " + rest + " seed" + std::to_string(++i)));
        }
    for (const char* rest :
         {"f32 t20011 c1", "f32 t70001 c1 reverse state-in values-ties", "f64 t30011 c3 sequences3 state-in",
          "bf16 t65536 c1 BCT values-ties", "i64 t40000 c2 BCT exclusive reverse", "u8 t33000 c1 values-ties",
          "f16 t9000 c200 values-ties", "i32 t100000 c1 sequences70 BCT", "f32 t131072 c1 BCT reverse"})
        for (const char* kind : {"min ", "max "})
            list.push_back(operator_problem_of(std::string("operator fwd index b1 ") + kind + rest + " seed" +
                                               std::to_string(++i)));
    return list;
}
INSTANTIATE_TEST_SUITE_P(OperatorIndices, OperatorIndices, testing::ValuesIn(cases_on(operator_targets(), problems())),
                         name_of_operator_case);

class OperatorIndicesOf : public OperatorOnTarget {};

TEST_P(OperatorIndicesOf, TiesAndSpecialNumbers) {
    constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    struct Known {
        const char* line;
        Values input, state, index;
    };
    const Known known[] = {
        {"max", {1, 3, 3, 2, 5}, {}, {0, 1, 1, 1, 4}},
        {"min", {2, 2, 1, 1, 4}, {}, {0, 0, 2, 2, 2}},
        {"max reverse", {1, 3, 3, 2, 5}, {}, {4, 4, 4, 4, 4}},
        {"min reverse", {2, 2, 1, 1, 4}, {}, {3, 3, 3, 3, 4}},
        {"max", {1, nan, 9, nan, 0}, {}, {0, 1, 1, 1, 1}},
        {"min", {nan, 1, nan, -inf, 0}, {}, {0, 0, 0, 0, 0}},
        {"max", {-inf, -inf, 0, inf, inf}, {}, {0, 0, 2, 3, 3}},
        {"min", {inf, inf, inf, 1, 0}, {}, {0, 0, 0, 3, 4}},
        {"max", {1, 2, 3, 4, 3}, {3}, {-1, -1, -1, 3, 3}},
        {"max", {1, 2, nan, 4, 3}, {3}, {-1, -1, 2, 2, 2}},
        {"min", {1, 2, 3, 4, 3}, {nan}, {-1, -1, -1, -1, -1}},
        {"min", {0, -0.0, 0, -1, -1}, {}, {0, 0, 0, 3, 3}},
        {"max exclusive", {1, 3, 3, 2, 5}, {}, {-1, 0, 1, 1, 1}},
        {"max exclusive reverse", {1, 3, 3, 2, 5}, {4}, {4, 4, 4, 4, -1}},
        {"max reduction", {1, 3, 3, 2, 1}, {}, {1}},
        {"max reduction", {1, 3, 3, 2, 1}, {7}, {-1}},
        {"min reduction reverse", {1, 3, 1, 2, 5}, {}, {2}},
    };
    for (const char* dtype : {"f32", "f64", "bf16", "f16"})
        for (const Known& k : known)
            for (const char* layout : {" BTC", " BCT"}) {
                OperatorProblem p =
                    operator_problem_of(std::string("operator fwd index b1 t5 c1 ") + dtype + " " + k.line + layout);
                p.state_in = !k.state.empty();
                OperatorData data = make_data(p);
                data.input = k.input;
                data.state_in = k.state;
                EXPECT_EQ(run(p, data)[index_id], k.index) << text_of(p);
            }
}

// Packed sequences count from the begin of the array, so that INPUT at INDEX is OUTPUT.
TEST_P(OperatorIndicesOf, FindTheElementOfInput) {
    for (const char* rest :
         {"b3 t500 c4", "b1 t999 c2 sequences6 reverse", "b2 t333 c3 BCT", "b1 t4096 c1 sequences9 BCT"})
        for (const char* kind : {"min", "max"}) {
            const OperatorProblem p =
                operator_problem_of(std::string("operator fwd index f32 ") + kind + " " + rest + " seed11");
            const OperatorData data = make_data(p);
            const OperatorOutcome outcome = run(p, data);
            for (int64_t b = 0; b < p.batch; ++b)
                for (int64_t t = 0; t < written_time(p, data); ++t)
                    for (int64_t c = 0; c < p.channels; ++c) {
                        const size_t at = p.place(b, t, c, 1);
                        const int64_t from = integer_of(outcome[index_id][at]);
                        ASSERT_EQ(data.input[p.place(b, from, c, 1)], outcome[output_id][at]) << text_of(p);
                    }
        }
}

// The numbers are the same whether INDEX is given or not.
TEST_P(OperatorIndicesOf, LeaveEveryBitOfTheNumbers) {
    for (const char* rest : {"f32 b2 t300 c6 state-in state-out", "bf16 b1 t5000 c2 sequences7 reverse state-out",
                             "f64 b2 t3000 c2 BCT exclusive", "u8 b1 t2048 c2 BCT", "f16 b2 t100 c8 reduction"}) {
        OperatorProblem p = operator_problem_of(std::string("operator fwd max ") + rest);
        const OperatorData data = make_data(p);
        const OperatorOutcome without = run(p, data);
        p.index = true;
        const OperatorOutcome with = run(p, data);
        for (const auto& [id, bits] : without.bits) EXPECT_TRUE(bits == with.bits.at(id)) << text_of(p) << " " << id;
    }
}

INSTANTIATE_TEST_SUITE_P(OperatorIndices, OperatorIndicesOf, testing::ValuesIn(operator_targets()),
                         [](const auto& one) { return text_of(one.param); });

}  // namespace
}  // namespace numeric
