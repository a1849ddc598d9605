// SPDX-License-Identifier: Apache-2.0
// Gradients of gated layers in 64 bits against finite differences, element by element; and what a plan computes against
// the linear recurrence and functions of its own.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gated_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

class GatedWide : public testing::TestWithParam<GatedCase> {};

// The function whose gradients backward gives, of a forward call that has run. Steps that belong to no sequence do not
// count.
double loss(const GatedProblem& p, const GatedData& data, const Call& call) {
    double sum = 0;
    const Values output = call.values(FLASHSCAN_ARG_OUTPUT);
    for (const Sequence& q : sequences_of(p.batch, p.time, data.offsets))
        for (int64_t t = q.begin; t < q.end; ++t)
            for (int64_t c = 0; c < p.channels; ++c) {
                const size_t i = p.index(q.batch, t, c);
                sum += data.real(grad | FLASHSCAN_ARG_OUTPUT, i) * output[i].real();
            }
    if (!p.state_out) return sum;
    const Values state = call.values(FLASHSCAN_ARG_STATE_OUT);
    for (size_t i = 0; i < state.size(); ++i) sum += data.real(grad | FLASHSCAN_ARG_STATE_OUT, i) * state[i].real();
    return sum;
}

TEST_P(GatedWide, HasTheGradientsOfFiniteDifferences) {
    const GatedProblem& p = GetParam().problem;
    const Target& target = GetParam().target;
    SKIP_UNLESS_AVAILABLE(target);
    const GatedData data = make_data(p);
    const GatedOutcome gradients = run_gated(p, target, data, {}, Guard::end);
    if (!target.kernel.empty() && gradients.status == FLASHSCAN_STATUS_UNSUPPORTED) GTEST_SKIP() << gradients.message;
    require(gradients);
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    Call call = forward_call(p, plan, target.backend, data, Guard::end);
    const auto slope = [&](int32_t argument, size_t i) {
        constexpr double h = 1e-6;
        Values changed = data.values.at(argument);
        const auto loss_at = [&](double shift) {
            changed[i] = data.values.at(argument)[i] + shift;
            call.set_input(argument, changed);
            EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return loss(p, data, call);
        };
        const double difference = loss_at(h) - loss_at(-h);
        call.set_input(argument, data.values.at(argument));
        return difference / (2 * h);
    };
    const int64_t end = written_time(p, data);
    for (const int32_t argument : gradient_ids) {
        if (!has_argument(p, argument)) continue;
        const Values& got = gradients[grad | argument];
        const bool tensor = static_cast<int64_t>(got.size()) == p.elements();
        double largest = 0;
        for (size_t i = 0; i < got.size(); ++i) {
            if (tensor && static_cast<int64_t>(i) / p.channels % p.time >= end) continue;
            largest = std::max(largest, std::abs(got[i].real()));
            EXPECT_NEAR(got[i].real(), slope(argument, i), 1e-7 * (1 + std::abs(got[i].real())))
                << "argument " << argument << " element " << i;
        }
        EXPECT_GT(largest, 1e-3) << "argument " << argument;
    }
}

std::vector<GatedProblem> wide_problems() {
    std::vector<GatedProblem> problems;
    const char* rests[] = {"b2 t5 c3 state-in state-out", "b2 t6 c2 BCT reverse reset state-in state-out seed2",
                           "b1 t9 c2 sequences3 state-in state-out seed3", "b2 t5 c3 first-step reset seed4"};
    size_t k = 0;
    for (const char* decay : {"value", "exp", "sigmoid", "one-minus-sigmoid", "lower-bound", "softplus", "ratio"})
        for (const char* scale : {"one", "one-minus", "sqrt"}) {
            const std::string parts = std::string("gated f64 decay-") + decay + " scale-" + scale + " input-gate ";
            problems.push_back(gated_problem_of(parts + rests[k++ % 4]));
        }
    for (const char* activation : {"none", "tanh", "silu", "positive"})
        for (const char* epilogue : {"none", "sigmoid", "silu", "tanh-sigmoid"}) {
            const std::string parts = std::string("gated f64 decay-sigmoid scale-one-minus activation-") + activation +
                                      " epilogue-" + epilogue + " ";
            problems.push_back(gated_problem_of(parts + rests[k++ % 4]));
        }
    return problems;
}

INSTANTIATE_TEST_SUITE_P(Gated, GatedWide, testing::ValuesIn(cases_on(gated_targets(), wide_problems())),
                         name_of_gated_case);

// One pass equals the linear recurrence between functions of this file, which knows no formula of the library.
TEST(GatedComposition, OfRglruIsTheLinearRecurrence) {
    const GatedProblem p = gated_problem_of("gated rglru f64 b2 t50 c7 no-bias");
    const GatedData data = make_data(p);
    const GatedOutcome got = run_gated(p, {}, data, {}, Guard::end);
    require(got);
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    Problem linear;
    linear.dtype = linear.gate_dtype = FLASHSCAN_DTYPE_F64;
    linear.batch = p.batch, linear.time = p.time, linear.channels = p.channels;
    Data values = make_data(linear);
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t)
            for (int64_t c = 0; c < p.channels; ++c) {
                const size_t i = p.index(b, t, c);
                const double softplus = std::log1p(std::exp(data.real(FLASHSCAN_ARG_PARAM, static_cast<size_t>(c))));
                const double a = std::exp(-8 * softplus * sigmoid(data.real(FLASHSCAN_ARG_GATE, i)));
                values.gate[i] = a;
                values.input[i] = (t == 0 ? 1 : std::sqrt(1 - a * a)) * data.real(FLASHSCAN_ARG_INPUT, i) *
                                  sigmoid(data.real(FLASHSCAN_ARG_INPUT_GATE, i));
            }
    const Outcome want = run_forward(linear, {}, values, Guard::end);
    require(want);
    for (size_t i = 0; i < want.output.size(); ++i)
        EXPECT_NEAR(got[FLASHSCAN_ARG_OUTPUT][i].real(), want.output[i].real(), 1e-12) << i;
}

}  // namespace
}  // namespace numeric
