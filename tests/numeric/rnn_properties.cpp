// SPDX-License-Identifier: Apache-2.0
// What recurrent networks must be like whatever the oracle says, in 64 bits: one step by hand, pieces and the whole,
// packed and apart, forward and reverse.
#include <gtest/gtest.h>

#include <cmath>

#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

// A cell, and a kernel of the CPU: the oracle, or the planner's choice where it is empty.
class RnnProperty : public testing::TestWithParam<std::tuple<std::string, std::string>> {
  protected:
    static RnnProblem problem(const std::string& rest) {
        return rnn_problem_of("rnn bwd f64 " + std::get<0>(GetParam()) + " " + rest);
    }
    static RnnOutcome run(const RnnProblem& p, const RnnData& data) {
        RnnOutcome outcome = run_rnn(p, {FLASHSCAN_CPU, std::get<1>(GetParam())}, data, Guard::end);
        require(outcome);
        return outcome;
    }
};

// Steps [begin, end) of row `row`, or of all rows where it is negative.
RnnProblem cut(const RnnProblem& p, const RnnData& data, int64_t row, int64_t begin, int64_t end, RnnData& piece) {
    RnnProblem part = p;
    part.sequences = 0;
    part.batch = row < 0 ? p.batch : 1;
    part.time = end - begin;
    piece = data;
    piece.offsets.clear();
    piece.input.assign(static_cast<size_t>(part.batch * part.time * p.gates() * p.width()), 0);
    piece.grad_output.assign(static_cast<size_t>(p.output_states() * part.batch * part.time * p.width()), 0);
    piece.reset.assign(p.reset ? static_cast<size_t>(part.batch * part.time) : 0, 0);
    for (int64_t b = 0; b < part.batch; ++b)
        for (int64_t t = 0; t < part.time; ++t) {
            const int64_t from = row < 0 ? b : row;
            if (p.reset)
                piece.reset[static_cast<size_t>(b * part.time + t)] =
                    data.reset[static_cast<size_t>(from * p.time + begin + t)];
            for (int64_t w = 0; w < p.width(); ++w) {
                for (int64_t g = 0; g < p.gates(); ++g)
                    piece.input[part.input_index(b, t, g, w)] = data.input[p.input_index(from, begin + t, g, w)];
                for (int64_t s = 0; s < p.output_states(); ++s)
                    piece.grad_output[part.output_index(s, b, t, w)] =
                        data.grad_output[p.output_index(s, from, begin + t, w)];
            }
        }
    return part;
}

void expect_near(const Value& got, const Value& want, const char* what) {
    EXPECT_NEAR(got.real(), want.real(), 1e-12 * (1 + std::abs(want.real()))) << what;
}

void expect_near(const Values& got, const Values& want, const char* what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], what);
}

Values sum(const Values& a, const Values& b) {
    Values result = a;
    for (size_t i = 0; i < a.size(); ++i) result[i] += b[i];
    return result;
}

TEST_P(RnnProperty, PiecesCarryOnToTheWhole) {
    for (const char* rest : {"b2 t11 h2 d3 state-in state-out", "b2 t11 h1 d4 TBGHD state-in state-out reset seed2"}) {
        const RnnProblem p = problem(rest);
        const RnnData data = make_data(p);
        const RnnOutcome whole = run(p, data);
        RnnData head_data, tail_data;
        const RnnProblem head = cut(p, data, -1, 0, 4, head_data), tail = cut(p, data, -1, 4, 11, tail_data);
        tail_data.state_in = run(head, head_data)[FLASHSCAN_ARG_STATE_OUT];
        const RnnOutcome second = run(tail, tail_data);
        head_data.grad_state_out = second[grad | FLASHSCAN_ARG_STATE_IN];
        const RnnOutcome first = run(head, head_data);
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t t = 0; t < p.time; ++t)
                for (int64_t w = 0; w < p.width(); ++w) {
                    const auto& o = t < 4 ? first : second;
                    const RnnProblem& part = t < 4 ? head : tail;
                    const int64_t at = t < 4 ? t : t - 4;
                    expect_near(o[FLASHSCAN_ARG_OUTPUT][part.output_index(0, b, at, w)],
                                whole[FLASHSCAN_ARG_OUTPUT][p.output_index(0, b, t, w)], "OUTPUT");
                    for (int64_t g = 0; g < p.gates(); ++g)
                        expect_near(o[grad | FLASHSCAN_ARG_INPUT][part.input_index(b, at, g, w)],
                                    whole[grad | FLASHSCAN_ARG_INPUT][p.input_index(b, t, g, w)], "GRAD|INPUT");
                }
        expect_near(second[FLASHSCAN_ARG_STATE_OUT], whole[FLASHSCAN_ARG_STATE_OUT], "STATE_OUT");
        expect_near(first[grad | FLASHSCAN_ARG_STATE_IN], whole[grad | FLASHSCAN_ARG_STATE_IN], "GRAD|STATE_IN");
        for (const int32_t id : {grad | FLASHSCAN_ARG_WEIGHT, grad | FLASHSCAN_ARG_BIAS})
            expect_near(sum(first[id], second[id]), whole[id], "sums");
    }
}

TEST_P(RnnProperty, PackedSequencesAreThoseApart) {
    for (const char* rest : {"b1 t23 h2 d3 sequences4 state-in state-out all-states",
                             "b1 t23 h1 d3 sequences4 state-in state-out reverse reset seed4"}) {
        const RnnProblem p = problem(rest);
        const RnnData data = make_data(p);
        const RnnOutcome packed = run(p, data);
        Values weight(data.weight.size());
        for (int64_t n = 0; n < p.sequences; ++n) {
            const int64_t begin = data.offsets[static_cast<size_t>(n)], end = data.offsets[static_cast<size_t>(n) + 1];
            RnnData piece;
            const RnnProblem part = cut(p, data, 0, begin, end, piece);
            const auto row = [&](const Values& all) {
                Values one(static_cast<size_t>(p.states() * p.width()));
                for (int64_t s = 0; s < p.states(); ++s)
                    for (int64_t w = 0; w < p.width(); ++w)
                        one[part.state_index(s, 0, w)] = all[p.state_index(s, n, w)];
                return one;
            };
            piece.state_in = row(data.state_in);
            piece.grad_state_out = row(data.grad_state_out);
            const RnnOutcome apart = run(part, piece);
            weight = sum(weight, apart[grad | FLASHSCAN_ARG_WEIGHT]);
            expect_near(apart[FLASHSCAN_ARG_STATE_OUT], row(packed[FLASHSCAN_ARG_STATE_OUT]), "STATE_OUT");
            expect_near(apart[grad | FLASHSCAN_ARG_STATE_IN], row(packed[grad | FLASHSCAN_ARG_STATE_IN]),
                        "GRAD|STATE_IN");
            for (int64_t t = begin; t < end; ++t)
                for (int64_t w = 0; w < p.width(); ++w)
                    expect_near(apart[FLASHSCAN_ARG_OUTPUT][part.output_index(0, 0, t - begin, w)],
                                packed[FLASHSCAN_ARG_OUTPUT][p.output_index(0, 0, t, w)], "OUTPUT");
        }
        expect_near(weight, packed[grad | FLASHSCAN_ARG_WEIGHT], "GRAD|WEIGHT");
    }
}

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
                             "b2 t40 h1 d5 state-in state-out all-states values-large"})
        for (const int32_t dtype : {FLASHSCAN_F32, FLASHSCAN_F16, FLASHSCAN_F64}) {
            RnnProblem p = problem(rest);
            p.dtype = p.weight_dtype = dtype;
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

INSTANTIATE_TEST_SUITE_P(Rnn, RnnProperty,
                         testing::Combine(testing::Values("lstm", "gru", "elman", "slstm", "gru-reset-before",
                                                          "elman-relu"),
                                          testing::Values("", "reference")),
                         [](const auto& i) {
                             std::string name = std::get<0>(i.param) + "_" + std::get<1>(i.param);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

double s(double x) { return 1 / (1 + std::exp(-x)); }

struct Step {
    std::vector<double> input, weight, bias, state, expected;
};

// One step of one element, with the numbers put into the header's equations.
void check_step(const std::string& cell, const Step& step) {
    const RnnProblem p = rnn_problem_of("rnn fwd f64 " + cell + " b1 t1 h1 d1 state-in state-out all-states");
    RnnData data;
    data.input.assign(step.input.begin(), step.input.end());
    data.weight.assign(step.weight.begin(), step.weight.end());
    data.bias.assign(step.bias.begin(), step.bias.end());
    data.state_in.assign(step.state.begin(), step.state.end());
    for (const char* kernel : {"", "reference"}) {
        const RnnOutcome outcome = run_rnn(p, {FLASHSCAN_CPU, kernel}, data, Guard::end);
        require(outcome);
        for (size_t i = 0; i < step.expected.size(); ++i)
            for (const int32_t id : {FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_STATE_OUT})
                EXPECT_NEAR(outcome[id][i].real(), step.expected[i], 1e-14) << cell << " state " << i << " " << kernel;
    }
}

TEST(RnnStep, EqualsTheHeadersEquations) {
    const double h = 0.5, c = -0.75;
    const double c1 = s(0.2 - 0.1 * h + 0.02) * c + s(0.1 + 0.3 * h + 0.01) * std::tanh(-0.4 + 0.7 * h + 0.03);
    check_step("lstm", {{0.1, 0.2, -0.4, 0.6},
                        {0.3, -0.1, 0.7, 0.9},
                        {0.01, 0.02, 0.03, 0.04},
                        {h, c},
                        {s(0.6 + 0.9 * h + 0.04) * std::tanh(c1), c1}});
    const double r = s(0.1 + 0.3 * h + 0.01), z = s(0.2 - 0.1 * h + 0.02);
    const double n = std::tanh(-0.4 + 0.03 + r * (0.7 * h + 0.04));
    check_step("gru", {{0.1, 0.2, -0.4}, {0.3, -0.1, 0.7}, {0.01, 0.02, 0.03, 0.04}, {h}, {(1 - z) * n + z * h}});
    const double before = std::tanh(-0.4 + 0.03 + 0.7 * (r * h));
    check_step("gru-reset-before",
               {{0.1, 0.2, -0.4}, {0.3, -0.1, 0.7}, {0.01, 0.02, 0.03}, {h}, {(1 - z) * before + z * h}});
    check_step("elman", {{0.1}, {0.3}, {0.01}, {h}, {std::tanh(0.1 + 0.3 * h + 0.01)}});
    check_step("elman-relu", {{0.1}, {0.3}, {0.01}, {h}, {0.1 + 0.3 * h + 0.01}});
    check_step("elman-relu", {{-0.9}, {0.3}, {0.01}, {h}, {0}});
    const double i = 0.1 + 0.3 * h + 0.01, l = std::log(s(0.2 - 0.1 * h + 0.02)) + 1.5, m = std::max(i, l);
    const double cs = std::exp(l - m) * c + std::exp(i - m) * std::tanh(-0.4 + 0.7 * h + 0.03);
    const double ns = std::exp(l - m) * 2.5 + std::exp(i - m);
    check_step("slstm", {{0.1, 0.2, -0.4, 0.6},
                         {0.3, -0.1, 0.7, 0.9},
                         {0.01, 0.02, 0.03, 0.04},
                         {h, c, 2.5, 1.5},
                         {s(0.6 + 0.9 * h + 0.04) * cs / ns, cs, ns, m}});
    // Without a past c and m are not looked at; where the sum stays below 1, n is 1.
    const double zs = std::tanh(-0.4 + 0.7 * h + 0.03), os = s(0.6 + 0.9 * h + 0.04);
    check_step(
        "slstm",
        {{0.1, 0.2, -0.4, 0.6}, {0.3, -0.1, 0.7, 0.9}, {0.01, 0.02, 0.03, 0.04}, {h, c, 0, 1.5}, {os * zs, zs, 1, i}});
    const double low = std::exp(l - m) * 0.25 + std::exp(i - m);
    ASSERT_LT(low, 1);
    check_step("slstm", {{0.1, 0.2, -0.4, 0.6},
                         {0.3, -0.1, 0.7, 0.9},
                         {0.01, 0.02, 0.03, 0.04},
                         {h, c, 0.25, 1.5},
                         {os * cs, cs, 1, m}});
}

}  // namespace
}  // namespace numeric
