// SPDX-License-Identifier: Apache-2.0
// States that are rows of a pool: the bits of dense ones, and nothing written between the rows.
#include <gtest/gtest.h>

#include <cmath>

#include "support/operator_check.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

// Steps that belong to no sequence are left NaN.
void expect_equal(const Values& found, const Values& expected, int id) {
    ASSERT_EQ(found.size(), expected.size()) << "argument " << id;
    for (size_t i = 0; i < found.size(); ++i)
        ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i].real()) && std::isnan(expected[i].real())))
            << "argument " << id << ", element " << i << ": " << found[i] << " and " << expected[i];
}

// Runs `run(problem)` with dense and with pooled states and compares every value that comes back.
template <typename Problem, typename Run>
void expect_the_same(const Problem& dense, const Target& target, const Run& run) {
    SCOPED_TRACE(text_of(target) + " " + text_of(dense));
    Problem pooled = dense;
    pooled.pooled = true;
    const Plan plan(desc_of(pooled), options_of(pooled, target.backend, target.kernel));
    if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) return;
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    const auto expected = run(dense), found = run(pooled);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [id, values] : expected) expect_equal(found.at(id), values, id);
}

class StridedStates : public testing::TestWithParam<Target> {};
class StridedRnnStates : public testing::TestWithParam<Target> {};
class StridedOperatorStates : public testing::TestWithParam<Target> {};

TEST_P(StridedStates, GiveTheBitsOfDenseOnes) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const Target& target = GetParam();
    for (const char* line :
         {"linear f32 BTC b5 t70 c33 state-in state-out", "linear bf16 BCT b3 t33 c5 state-in state-out in-place",
          "linear c64 BTC b1 t300 c7 sequences6 state-in state-out",
          "linear f64 BCT b4 t1 c9 state-in state-out reverse", "linear f16 BTC b2 t40 c1 state-in",
          "linear f32 BTC b2 t40 c5 state-out caller-scratch", "linear f32 BTC b3 t0 c5 state-in state-out"}) {
        const Problem problem = problem_of(line);
        Data data = make_data(problem);
        data.output = run_forward(problem, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end).output;
        expect_the_same(problem, target, [&](const Problem& p) {
            const Outcome forward = run_forward(p, target, data, Guard::end);
            require(forward);
            const Outcome backward = run_backward(p, target, data, Guard::start);
            require(backward);
            return std::map<int, Values>{{0, forward.output},
                                         {1, forward.state_out},
                                         {2, backward.grad_input},
                                         {3, backward.grad_gate},
                                         {4, backward.grad_state_in}};
        });
    }
}

TEST_P(StridedRnnStates, GiveTheBitsOfDenseOnes) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const Target& target = GetParam();
    for (const char* line :
         {"rnn lstm bwd f32 b3 t20 h2 d5 state-in state-out", "rnn gru bwd bf16 b4 t9 h1 d16 state-in",
          "rnn slstm bwd f64 b1 t30 h1 d7 sequences4 state-in state-out reverse",
          "rnn elman fwd f32 b2 t5 h1 d3 state-out caller-scratch"}) {
        const RnnProblem problem = rnn_problem_of(line);
        const RnnData data = make_data(problem);
        expect_the_same(problem, target, [&](const RnnProblem& p) {
            const RnnOutcome outcome = run_rnn(p, target, data, Guard::end);
            require(outcome);
            return outcome.values;
        });
    }
}

TEST_P(StridedOperatorStates, GiveTheBitsOfDenseOnes) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const Target& target = GetParam();
    for (const char* line : {"operator add inclusive bwd f32 b3 t70 c5 state-in state-out",
                             "operator logaddexp exclusive bwd bf16 b2 t33 c3 BCT state-in state-out",
                             "operator matmul reduction bwd f32 b1 t60 c1 d3 sequences5 state-in state-out",
                             "operator affine inclusive bwd f64 b2 t40 c2 d4 state-in state-out reverse"}) {
        const OperatorProblem problem = operator_problem_of(line);
        const OperatorData data = make_data(problem);
        expect_the_same(problem, target, [&](const OperatorProblem& p) {
            const OperatorOutcome outcome = run_operator(p, target, data, Guard::end);
            require(outcome);
            return outcome.values;
        });
    }
}

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

INSTANTIATE_TEST_SUITE_P(Single, StridedStates, testing::ValuesIn(all_targets()), name_of_target);
INSTANTIATE_TEST_SUITE_P(Single, StridedRnnStates, testing::ValuesIn(rnn_targets()), name_of_target);
INSTANTIATE_TEST_SUITE_P(Single, StridedOperatorStates, testing::ValuesIn(operator_targets()), name_of_target);

}  // namespace
}  // namespace numeric
