// SPDX-License-Identifier: Apache-2.0
// Gradients of recurrent networks in 64 bits against finite differences, element by element.
#include <gtest/gtest.h>

#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

class RnnWide : public testing::TestWithParam<RnnCase> {
  protected:
    void SetUp() override {
        SKIP_UNLESS_AVAILABLE(GetParam().target);
        const RnnProblem& p = GetParam().problem;
        const Target& target = GetParam().target;
        const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
        if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED)
            GTEST_SKIP() << "kernel refuses: " << plan.message().substr(0, 300);
    }
};

// The function whose gradients backward gives, from a forward call that has run. Steps that belong to no sequence do
// not count.
double loss(const RnnProblem& p, const RnnData& data, const Call& call) {
    double sum = 0;
    const Values output = call.values(FLASHSCAN_ARG_OUTPUT);
    for (const Sequence& q : sequences_of(p.batch, p.time, data.offsets))
        for (int64_t t = q.begin; t < q.end; ++t)
            for (int64_t s = 0; s < p.output_states(); ++s)
                for (int64_t w = 0; w < p.width(); ++w) {
                    const size_t i = p.output_index(s, q.batch, t, w);
                    sum += data.grad_output[i].real() * output[i].real();
                }
    if (!p.state_out) return sum;
    const Values state = call.values(FLASHSCAN_ARG_STATE_OUT);
    for (size_t i = 0; i < state.size(); ++i) sum += data.grad_state_out[i].real() * state[i].real();
    return sum;
}

TEST_P(RnnWide, HasTheGradientsOfFiniteDifferences) {
    RnnProblem p = GetParam().problem;
    const RnnData data = make_data(p);
    const Target& target = GetParam().target;
    const RnnOutcome gradients = run_rnn(p, target, data, Guard::end);
    require(gradients);
    p.backward = false;
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    Call call = forward_call(p, plan, target.backend, data, Guard::end);
    const auto slope = [&](Values RnnData::*values, int32_t argument, size_t i) {
        constexpr double h = 1e-6;
        Values changed = data.*values;
        const auto loss_at = [&](double shift) {
            changed[i] = (data.*values)[i] + shift;
            call.set_input(argument, changed);
            EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return loss(p, data, call);
        };
        const double difference = loss_at(h) - loss_at(-h);
        call.set_input(argument, data.*values);
        return difference / (2 * h);
    };
    const auto check = [&](Values RnnData::*values, int32_t argument, auto skip) {
        const Values& got = gradients[grad | argument];
        ASSERT_EQ(got.size(), (data.*values).size());
        double largest = 0;
        for (size_t i = 0; i < got.size(); ++i) {
            if (skip(i)) continue;
            largest = std::max(largest, std::abs(got[i].real()));
            EXPECT_NEAR(got[i].real(), slope(values, argument, i), 1e-7 * (1 + std::abs(got[i].real())))
                << "argument " << argument << " element " << i;
        }
        EXPECT_GT(largest, 1e-4) << "argument " << argument;
    };
    const auto none = [](size_t) { return false; };
    check(&RnnData::weight, FLASHSCAN_ARG_WEIGHT, none);
    check(&RnnData::bias, FLASHSCAN_ARG_BIAS, none);
    const int64_t end = written_time(p, data);
    std::vector<bool> outside(data.input.size());
    for (int64_t t = end; t < p.time; ++t)
        for (int64_t g = 0; g < p.gates(); ++g)
            for (int64_t w = 0; w < p.width(); ++w) outside[p.input_index(0, t, g, w)] = true;
    check(&RnnData::input, FLASHSCAN_ARG_INPUT, [&](size_t i) { return outside[i]; });
    if (!p.state_in) return;
    // n = 0 marks an element without a past, around which the network is not continuous.
    check(&RnnData::state_in, FLASHSCAN_ARG_STATE_IN, [&](size_t i) {
        return p.cell == FLASHSCAN_CELL_SLSTM && i / (data.state_in.size() / 4) == 2 && data.state_in[i] == Value(0);
    });
}

std::vector<RnnProblem> wide_problems() {
    std::vector<RnnProblem> problems;
    for (const std::string& cell : cell_words())
        for (const char* rest : {"b2 t5 h2 d3 state-in state-out", "b2 t4 h1 d4 state-in state-out all-states",
                                 "b2 t6 h1 d3 TBGHD reverse reset state-in state-out all-states seed2",
                                 "b1 t9 h2 d2 sequences3 state-in state-out seed3", "b2 t5 h1 d3 seed4",
                                 "b12 t2 h1 d2 state-in all-states state-out seed5"})
            problems.push_back(rnn_problem_of(std::string("rnn bwd f64 ") + cell + " " + rest));
    return problems;
}

INSTANTIATE_TEST_SUITE_P(Rnn, RnnWide, testing::ValuesIn(cases_on(rnn_targets(), wide_problems())), name_of_rnn_case);

}  // namespace
}  // namespace numeric
