// SPDX-License-Identifier: Apache-2.0
// What recurrent networks must be like whatever the oracle says: one step by hand, forward and reverse, resets,
// saturated gates, clipping.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

using RnnPropertyCase = std::tuple<std::string, Target, std::string>;  // cell, dtype

class RnnProperty : public testing::TestWithParam<RnnPropertyCase> {
  protected:
    void SetUp() override {
        SKIP_UNLESS_AVAILABLE(target());
        const Plan plan(desc_of(problem("b2 t9 h1 d9")), options_of(RnnProblem{}, target().backend, target().kernel));
        if (!target().kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED)
            GTEST_SKIP() << "kernel refuses: " << plan.message().substr(0, 300);
    }
    static const Target& target() { return std::get<1>(GetParam()); }
    static RnnProblem problem(const std::string& rest) {
        return fitted(rnn_problem_of("rnn bwd " + std::get<2>(GetParam()) + " " + std::get<0>(GetParam()) + " " + rest),
                      target());
    }
    static RnnOutcome run(const RnnProblem& p, const RnnData& data) {
        RnnOutcome outcome = run_rnn(p, target(), data, Guard::end);
        require(outcome);
        return outcome;
    }
    static void expect_near(const Values& got, const Values& want, const char* what) {
        ASSERT_EQ(got.size(), want.size()) << what;
        for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], what);
    }
    static void expect_near(const Value& got, const Value& want, const char* what) {
        const double units = 16 * unit_roundoff(problem("").dtype);
        EXPECT_NEAR(got.real(), want.real(), units * (1 + std::abs(want.real()))) << what;
    }
};

TEST_P(RnnProperty, ReverseIsForwardOnTheSequenceTurnedAround) {
    RnnProblem p = problem("b2 t9 h2 d3 reset state-in state-out all-states");
    RnnData data = make_data(p);
    const RnnOutcome forward = run(p, data);
    RnnData turned = data;
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t) {
            const int64_t back = p.time - 1 - t;
            turned.reset[static_cast<size_t>(b * p.time + t)] = data.reset[static_cast<size_t>(b * p.time + back)];
            for (int64_t w = 0; w < p.width(); ++w) {
                for (int64_t g = 0; g < p.gates(); ++g)
                    turned.input[p.input_index(b, t, g, w)] = data.input[p.input_index(b, back, g, w)];
                for (int64_t s = 0; s < p.states(); ++s)
                    turned.grad_output[p.output_index(s, b, t, w)] = data.grad_output[p.output_index(s, b, back, w)];
            }
        }
    p.reverse = true;
    const RnnOutcome reverse = run(p, turned);
    for (const int32_t id : {static_cast<int32_t>(FLASHSCAN_ARG_STATE_OUT), grad | FLASHSCAN_ARG_STATE_IN,
                             grad | FLASHSCAN_ARG_WEIGHT, grad | FLASHSCAN_ARG_BIAS})
        expect_near(reverse[id], forward[id], "states and sums");
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t)
            for (int64_t w = 0; w < p.width(); ++w)
                for (int64_t s = 0; s < p.states(); ++s)
                    expect_near(reverse[FLASHSCAN_ARG_OUTPUT][p.output_index(s, b, p.time - 1 - t, w)],
                                forward[FLASHSCAN_ARG_OUTPUT][p.output_index(s, b, t, w)], "OUTPUT");
}

TEST_P(RnnProperty, NothingPassesAReset) {
    const RnnProblem p = problem("b1 t8 h1 d9 reset state-in state-out all-states");
    RnnData data = make_data(p);
    data.reset.assign(8, 0);
    data.reset[5] = 1;
    RnnData other = data;
    for (int64_t w = 0; w < p.width(); ++w) other.input[p.input_index(0, 2, 0, w)] = NAN;
    const RnnOutcome a = run(p, data), b = run(p, other);
    expect_near(b[FLASHSCAN_ARG_STATE_OUT], a[FLASHSCAN_ARG_STATE_OUT], "STATE_OUT");
    EXPECT_TRUE(std::isnan(b[FLASHSCAN_ARG_OUTPUT][p.output_index(0, 0, 4, 0)].real()));
    other = data;
    for (Value& value : other.grad_state_out) value += 1;
    const RnnOutcome c = run(p, other);
    for (int64_t t = 0; t < 8; ++t)
        for (int64_t w = 0; w < p.width(); ++w) {
            const size_t i = p.input_index(0, t, 0, w);
            if (t < 5) expect_near(c[grad | FLASHSCAN_ARG_INPUT][i], a[grad | FLASHSCAN_ARG_INPUT][i], "before");
        }
    expect_near(c[grad | FLASHSCAN_ARG_STATE_IN], a[grad | FLASHSCAN_ARG_STATE_IN], "GRAD|STATE_IN");
    EXPECT_NE(c[grad | FLASHSCAN_ARG_BIAS], a[grad | FLASHSCAN_ARG_BIAS]);
}

TEST_P(RnnProperty, StaysFiniteWhereGatesSaturate) {
    for (const char* rest : {"b2 t40 h1 d5 state-in state-out all-states values-saturated",
                             "b2 t40 h1 d5 state-in state-out all-states values-large"}) {
        const RnnProblem p = problem(rest);
        for (const auto& [id, values] : run(p, make_data(p)).values)
            for (const Value& value : values) ASSERT_TRUE(std::isfinite(value.real())) << text_of(p) << " " << id;
    }
}

TEST_P(RnnProperty, ClipLimitsWhatComesThroughR) {
    RnnProblem p = problem("b1 t3 h1 d4 state-in state-out");
    RnnData data = make_data(p);
    const RnnOutcome plain = run(p, data);
    p.clip = 1e6;
    EXPECT_EQ(run(p, data)[grad | FLASHSCAN_ARG_STATE_IN], plain[grad | FLASHSCAN_ARG_STATE_IN]);
    // With next to no gradient through R the network is that of R = 0 behind the states that forward found.
    p.clip = 1e-300;
    const RnnOutcome cut_off = run(p, data);
    EXPECT_NE(cut_off[grad | FLASHSCAN_ARG_STATE_IN], plain[grad | FLASHSCAN_ARG_STATE_IN]);
    const int64_t last = p.time - 1;
    for (int64_t w = 0; w < p.width(); ++w) {
        const size_t i = p.input_index(0, last, 0, w);
        EXPECT_EQ(cut_off[grad | FLASHSCAN_ARG_INPUT][i], plain[grad | FLASHSCAN_ARG_INPUT][i]);
    }
    for (const Value& value : cut_off[grad | FLASHSCAN_ARG_STATE_IN])
        EXPECT_TRUE(p.cell != FLASHSCAN_CELL_ELMAN || std::abs(value) <= 1e-300);
}

// STATE_IN of elements without a past (n = 0), or of a sequence whose first step resets, is not looked at.
class RnnPast : public RnnProperty {
  protected:
    // Puts every kind of number into what is not looked at; nothing that is computed may change.
    static void check(const RnnProblem& p, RnnData data, const std::vector<int64_t>& states) {
        const double rest[] = {NAN, INFINITY, -INFINITY, 1e30};
        RnnData other = data;
        for (const int64_t s : states)
            for (int64_t row = 0; row < p.state_rows(); ++row)
                for (int64_t w = 0; w < p.width(); ++w) {
                    const size_t i = p.state_index(s, row, w);
                    if (data.state_in[p.state_index(2, row, w)].real() != 0 && data.reset.empty()) continue;
                    other.state_in[i] = rest[(w + s) % 4];
                    data.state_in[i] = 0;
                }
        const RnnOutcome got = run(p, other), want = run(p, data);
        for (const auto& [id, values] : want.values) EXPECT_EQ(got[id], values) << text_of(p) << " " << id;
    }
};

TEST_P(RnnPast, StatesOfElementsWithoutAPastAreNotLookedAt) {
    for (const char* rest : {"b2 t9 h1 d9", "b3 t1 h2 d5", "b1 t12 h2 d64", "b1 t12 h1 d40 sequences3"}) {
        const RnnProblem p = problem(std::string(rest) + " state-in state-out all-states");
        RnnData data = make_data(p);
        if (p.sequences > 0) data.offsets = {0, 4, 5, p.time};  // those without steps pass all states on
        for (int64_t row = 0; row < p.state_rows(); ++row)
            for (int64_t w = row % 2; w < p.width(); w += 2) data.state_in[p.state_index(2, row, w)] = 0;
        check(p, data, {1, 3});
    }
}

TEST_P(RnnPast, StatesBeforeAResetAreNotLookedAt) {
    const RnnProblem p = problem("b2 t9 h1 d9 reset state-in state-out all-states");
    RnnData data = make_data(p);
    for (int64_t b = 0; b < p.batch; ++b) data.reset[static_cast<size_t>(b * p.time)] = 1;
    check(p, data, {1, 2, 3});
}

// Few rows and a large R: several threads walk a block together.
TEST(RnnTeams, GiveTheBitsOfOneThread) {
    for (const char* line :
         {"rnn lstm bwd f32 b1 t7 h1 d200 state-in state-out", "rnn gru bwd bf16 b3 t9 h1 d211 weight-f32 reset",
          "rnn gru-reset-before bwd f32 b2 t6 h1 d230 state-in state-out reverse all-states",
          "rnn slstm bwd f64 b1 t20 h1 d170 sequences3 state-in state-out", "rnn lstm fwd f16 b2 t2 h1 d203 state-out",
          "rnn gru-reset-before fwd f32 b4 t1 h1 d190 state-in", "rnn lstm bwd f32 b1 t5 h2 d180"}) {
        SCOPED_TRACE(line);
        RnnProblem p = rnn_problem_of(line);
        const RnnData data = make_data(p);
        const Target target{FLASHSCAN_BACKEND_CPU, "blocked"};
        p.threads = 1;
        const RnnOutcome alone = run_rnn(p, target, data, Guard::end);
        require(alone);
        for (const int32_t threads : {2, 3, 7}) {
            p.threads = threads;
            if (threads == 7) {
                const std::string text = Plan(desc_of(p), options_of(p, target.backend, target.kernel)).describe();
                EXPECT_EQ(text.find(" 1 threads each"), std::string::npos) << text;
            }
            const RnnOutcome together = run_rnn(p, target, data, Guard::end);
            require(together);
            EXPECT_EQ(together.bits, alone.bits) << threads << " threads";
        }
    }
}

std::string name_of_property(const testing::TestParamInfo<RnnPropertyCase>& info) {
    const auto& [cell, target, dtype] = info.param;
    std::string name = text_of(target) + "_" + cell + "_" + dtype;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Rnn, RnnProperty,
                         testing::Combine(testing::ValuesIn(cell_words()), testing::ValuesIn(rnn_targets()),
                                          testing::Values("f64", "f32", "bf16", "f16")),
                         name_of_property);

INSTANTIATE_TEST_SUITE_P(Rnn, RnnPast,
                         testing::Combine(testing::Values("slstm"), testing::ValuesIn(rnn_targets()),
                                          testing::Values("f64", "f32", "bf16", "f16")),
                         name_of_property);

double s(double x) { return 1 / (1 + std::exp(-x)); }

struct Step {
    std::vector<double> input, weight, bias, state, expected;
};

// One step of one element, with the numbers put into the header's equations. Adds the cell to `checked`.
void check_step(const std::string& cell, const Step& step, std::set<std::string>& checked) {
    checked.insert(cell);
    const RnnProblem p = rnn_problem_of("rnn fwd f64 " + cell + " b1 t1 h1 d1 state-in state-out all-states");
    RnnData data;
    data.input.assign(step.input.begin(), step.input.end());
    data.weight.assign(step.weight.begin(), step.weight.end());
    data.bias.assign(step.bias.begin(), step.bias.end());
    data.state_in.assign(step.state.begin(), step.state.end());
    for (const char* kernel : {"", "reference"}) {
        const RnnOutcome outcome = run_rnn(p, {FLASHSCAN_BACKEND_CPU, kernel}, data, Guard::end);
        require(outcome);
        for (size_t i = 0; i < step.expected.size(); ++i)
            for (const int32_t id : {FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_STATE_OUT})
                EXPECT_NEAR(outcome[id][i].real(), step.expected[i], 1e-14) << cell << " state " << i << " " << kernel;
    }
}

TEST(RnnStep, EqualsTheHeadersEquations) {
    std::set<std::string> checked;
    const auto check = [&](const std::string& cell, const Step& step) { check_step(cell, step, checked); };
    const double h = 0.5, c = -0.75;
    const double c1 = s(0.2 - 0.1 * h + 0.02) * c + s(0.1 + 0.3 * h + 0.01) * std::tanh(-0.4 + 0.7 * h + 0.03);
    check("lstm", {{0.1, 0.2, -0.4, 0.6},
                   {0.3, -0.1, 0.7, 0.9},
                   {0.01, 0.02, 0.03, 0.04},
                   {h, c},
                   {s(0.6 + 0.9 * h + 0.04) * std::tanh(c1), c1}});
    const double r = s(0.1 + 0.3 * h + 0.01), z = s(0.2 - 0.1 * h + 0.02);
    const double n = std::tanh(-0.4 + 0.03 + r * (0.7 * h + 0.04));
    check("gru", {{0.1, 0.2, -0.4}, {0.3, -0.1, 0.7}, {0.01, 0.02, 0.03, 0.04}, {h}, {(1 - z) * n + z * h}});
    const double before = std::tanh(-0.4 + 0.03 + 0.7 * (r * h));
    check("gru-reset-before",
          {{0.1, 0.2, -0.4}, {0.3, -0.1, 0.7}, {0.01, 0.02, 0.03}, {h}, {(1 - z) * before + z * h}});
    const double f = r, candidate = std::tanh(-0.4 + 0.02 + 0.7 * (f * h));
    check("mgu", {{0.1, -0.4}, {0.3, 0.7}, {0.01, 0.02}, {h}, {(1 - f) * h + f * candidate}});
    check("elman", {{0.1}, {0.3}, {0.01}, {h}, {std::tanh(0.1 + 0.3 * h + 0.01)}});
    check("elman-relu", {{0.1}, {0.3}, {0.01}, {h}, {0.1 + 0.3 * h + 0.01}});
    check("elman-relu", {{-0.9}, {0.3}, {0.01}, {h}, {0}});
    const double i = 0.1 + 0.3 * h + 0.01, l = std::log(s(0.2 - 0.1 * h + 0.02)) + 1.5, m = std::max(i, l);
    const double cs = std::exp(l - m) * c + std::exp(i - m) * std::tanh(-0.4 + 0.7 * h + 0.03);
    const double ns = std::exp(l - m) * 2.5 + std::exp(i - m);
    check("slstm", {{0.1, 0.2, -0.4, 0.6},
                    {0.3, -0.1, 0.7, 0.9},
                    {0.01, 0.02, 0.03, 0.04},
                    {h, c, 2.5, 1.5},
                    {s(0.6 + 0.9 * h + 0.04) * cs / ns, cs, ns, m}});
    // Without a past c and m are not looked at; where the sum stays below 1, n is 1.
    const double zs = std::tanh(-0.4 + 0.7 * h + 0.03), os = s(0.6 + 0.9 * h + 0.04);
    check(
        "slstm",
        {{0.1, 0.2, -0.4, 0.6}, {0.3, -0.1, 0.7, 0.9}, {0.01, 0.02, 0.03, 0.04}, {h, c, 0, 1.5}, {os * zs, zs, 1, i}});
    const double low = std::exp(l - m) * 0.25 + std::exp(i - m);
    ASSERT_LT(low, 1);
    check("slstm", {{0.1, 0.2, -0.4, 0.6},
                    {0.3, -0.1, 0.7, 0.9},
                    {0.01, 0.02, 0.03, 0.04},
                    {h, c, 0.25, 1.5},
                    {os * cs, cs, 1, m}});
    const std::vector<std::string> all = cell_words();
    EXPECT_EQ(checked, std::set<std::string>(all.begin(), all.end())) << "every cell has a step here";
}

}  // namespace
}  // namespace numeric
