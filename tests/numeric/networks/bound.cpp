// SPDX-License-Identifier: Apache-2.0
// Tests of the tests: the error bound of recurrent networks accepts the arithmetic that the header allows and rejects
// mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

// OUTPUT by plans of one step in f64, between which `keep` may tamper with the states. B = 1, hidden states only.
Values stepped(const RnnProblem& p, const RnnData& data, const std::function<void(Values&)>& keep) {
    RnnProblem one = p;
    one.dtype = one.weight_dtype = FLASHSCAN_DTYPE_F64;
    one.backward = one.reset = false;
    one.time = 1;
    one.state_in = one.state_out = true;
    RnnData step = data;
    if (step.state_in.empty()) step.state_in.assign(static_cast<size_t>(p.states() * p.width()), 0);
    const auto width = static_cast<std::ptrdiff_t>(p.gates() * p.width());
    Values output;
    for (int64_t t = 0; t < p.time; ++t) {
        step.input.assign(data.input.begin() + t * width, data.input.begin() + (t + 1) * width);
        const RnnOutcome outcome = run_rnn(one, {FLASHSCAN_BACKEND_CPU, "reference"}, step, Guard::end, 1);
        require(outcome);
        for (const Value& value : outcome[FLASHSCAN_ARG_OUTPUT]) output.push_back(rounded(p.dtype, value));
        step.state_in = outcome[FLASHSCAN_ARG_STATE_OUT];
        keep(step.state_in);
    }
    return output;
}

// Rounds every state from the `first`-th up to the `end`-th.
std::function<void(Values&)> rounding(const RnnProblem& p, int32_t dtype, int64_t first, int64_t end) {
    return [=](Values& states) {
        for (int64_t i = first * p.width(); i < end * p.width(); ++i) {
            Value& value = states[static_cast<size_t>(i)];
            value = rounded(dtype, value);
        }
    };
}

bool accepted(const RnnProblem& p, const RnnData& data, int32_t id, const Values& got, const RnnReference& reference) {
    return compare(p, data, id, got, reference).ok();
}

TEST(RnnBound, AcceptsRoundedFactorsAndRejectsMistakes) {
    const auto keep = [](Values&) {};
    for (const char* line : {"rnn lstm bf16 b1 t120 h1 d24 state-in", "rnn slstm bf16 b1 t120 h2 d12 state-in",
                             "rnn lstm f16 b1 t120 h1 d24 state-in", "rnn gru bf16 b1 t120 h1 d24 state-in"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        const RnnData data = make_data(p);
        const RnnReference reference = reference_of(p, data);
        const auto ok = [&](const RnnData& changed, const std::function<void(Values&)>& how) {
            return accepted(p, data, FLASHSCAN_ARG_OUTPUT, stepped(p, changed, how), reference);
        };
        EXPECT_TRUE(ok(data, keep));
        EXPECT_TRUE(ok(data, rounding(p, FLASHSCAN_DTYPE_F32, 0, p.states()))) << "states in f32";
        if (p.states() > 1) {
            EXPECT_TRUE(ok(data, rounding(p, p.dtype, 0, 1))) << "h rounded for the product";
        }
        RnnData wrong = data;
        wrong.bias.assign(data.bias.size(), 0);
        EXPECT_FALSE(ok(wrong, keep)) << "no bias";
        wrong = data;
        wrong.state_in.assign(data.state_in.size(), 0);
        EXPECT_FALSE(ok(wrong, keep)) << "no initial state";
        wrong = data;
        const auto row = static_cast<std::ptrdiff_t>(p.gates() * p.width());
        std::copy_n(data.input.begin() + 60 * row, row, wrong.input.begin() + 61 * row);
        EXPECT_FALSE(ok(wrong, keep)) << "a step twice";
        wrong = data;
        for (int64_t j = 0; j < p.dim; ++j)
            for (int64_t k = 0; k < p.dim; ++k)
                wrong.weight[static_cast<size_t>(j * p.dim + k)] = data.weight[static_cast<size_t>(k * p.dim + j)];
        EXPECT_FALSE(ok(wrong, keep)) << "a block of R transposed";
    }
}

TEST(RnnBound, RejectsStatesOf16Bits) {
    for (const char* line :
         {"rnn lstm bf16 b1 t300 h1 d16 values-loose", "rnn lstm f16 b1 t300 h1 d16 values-loose",
          "rnn slstm bf16 b1 t300 h1 d16 values-loose", "rnn gru bf16 b1 t300 h1 d16 values-loose"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        const RnnData data = make_data(p);
        const RnnReference reference = reference_of(p, data);
        const int64_t first = p.states() > 1 ? 1 : 0;
        const auto ok = [&](int32_t dtype) {
            return accepted(p, data, FLASHSCAN_ARG_OUTPUT, stepped(p, data, rounding(p, dtype, first, p.states())),
                            reference);
        };
        EXPECT_TRUE(ok(FLASHSCAN_DTYPE_F32));
        EXPECT_FALSE(ok(p.dtype));
    }
}

TEST(RnnBound, RejectsWrongGradients) {
    for (const std::string& cell : cell_words()) {
        const RnnProblem p =
            rnn_problem_of(std::string("rnn bf16 b2 t60 h1 d16 state-in state-out values-loose ") + cell);
        const RnnData data = make_data(p);
        const RnnReference reference = reference_of(p, data);
        for (const int32_t id : {grad | FLASHSCAN_ARG_INPUT, grad | FLASHSCAN_ARG_BIAS}) {
            Values gradient = reference.at(id).value;
            for (Value& value : gradient) value = rounded(FLASHSCAN_DTYPE_BF16, value);
            EXPECT_TRUE(accepted(p, data, id, gradient, reference)) << cell;
            const auto largest = std::max_element(gradient.begin(), gradient.end(), [](const Value& a, const Value& b) {
                return std::abs(a.real()) < std::abs(b.real());
            });
            *largest *= id == (grad | FLASHSCAN_ARG_INPUT) ? 1.02 : 1.1;
            EXPECT_FALSE(accepted(p, data, id, gradient, reference)) << cell << " " << id;
        }
        // One more step in the sums of GRAD|WEIGHT.
        Values weight = reference.at(grad | FLASHSCAN_ARG_WEIGHT).value;
        for (Value& value : weight) value += value * (1.0 / 20);
        EXPECT_FALSE(accepted(p, data, grad | FLASHSCAN_ARG_WEIGHT, weight, reference)) << cell;
    }
}

// GRAD|STATE_IN with its h as R^T dg of the first step, both factors rounded; for cells in which h enters by R alone.
// `gates` of the products are added up.
Values through_first_step(const RnnProblem& p, const RnnData& data, const RnnReference& reference, int64_t gates) {
    Values gradient = reference.at(grad | FLASHSCAN_ARG_STATE_IN).value;
    const Values& raw = reference.at(grad | FLASHSCAN_ARG_INPUT).value;
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t w = 0; w < p.width(); ++w) {
            double sum = 0;
            for (int64_t j = 0; j < gates * p.dim; ++j) {
                const int64_t row = j / p.dim * p.width() + w / p.dim * p.dim + j % p.dim;
                sum += rounded(p.dtype, data.weight[static_cast<size_t>(row * p.dim + w % p.dim)]).real() *
                       rounded(p.dtype, raw[p.input_index(b, 0, 0, row)]).real();
            }
            if (p.clip > 0) sum = std::clamp(sum, -p.clip, p.clip);
            const bool reset = p.reset && data.reset[static_cast<size_t>(b * p.time)] != 0;
            gradient[p.state_index(0, b, w)] = reset ? 0 : sum;
        }
    return gradient;
}

TEST(RnnBound, KnowsTheFirstStepsProduct) {
    for (const char* line :
         {"rnn slstm f16 b9 t2 h2 d1 TBGHD weight-f32 reset state-in all-states clip0.05 values-saturated seed20",
          "rnn lstm f16 b3 t1 h2 d7 weight-f32 state-in all-states values-saturated seed60",
          "rnn slstm bf16 b3 t2 h2 d16 weight-f32 state-in values-saturated seed44",
          "rnn elman bf16 b3 t1 h1 d16 weight-f32 state-in values-saturated seed42"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        RnnData data = make_data(p);
        const int32_t id = grad | FLASHSCAN_ARG_STATE_IN;
        const RnnReference reference = reference_of(p, data);
        EXPECT_TRUE(accepted(p, data, id, through_first_step(p, data, reference, p.gates()), reference));
        EXPECT_FALSE(accepted(p, data, id, through_first_step(p, data, reference, p.gates() - 1), reference))
            << "without the last gate";
        if (!p.reset) continue;
        data.reset.assign(data.reset.size(), 1);
        const RnnReference parted = reference_of(p, data);
        Values gradient = parted.at(id).value;
        EXPECT_TRUE(accepted(p, data, id, gradient, parted));
        gradient[0] += 1e-4;
        EXPECT_FALSE(accepted(p, data, id, gradient, parted)) << "past a reset";
    }
}

// GRAD|INPUT of r, all else as it should be: s'(r) h R_n^T dg_n with both factors rounded, in networks of one step.
Values through_reset(const RnnProblem& p, const RnnData& data, const RnnReference& reference, bool whole) {
    Values gradient = reference.at(grad | FLASHSCAN_ARG_INPUT).value;
    const auto weight = [&](int64_t gate, int64_t out, int64_t in) {
        return data.weight[static_cast<size_t>((gate * p.width() + out) * p.dim + in)].real();
    };
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t w = 0; w < p.width(); ++w) {
            const int64_t first = w / p.dim * p.dim, in = w - first;
            double raw = data.input[p.input_index(b, 0, 0, w)].real() + data.bias[static_cast<size_t>(w)].real();
            double sum = 0;
            for (int64_t k = 0; k < p.dim; ++k) {
                raw += weight(0, w, k) * data.state_in[p.state_index(0, b, first + k)].real();
                const Value dg = reference.at(grad | FLASHSCAN_ARG_INPUT).value[p.input_index(b, 0, 2, first + k)];
                if (whole || k > 0)
                    sum += rounded(p.dtype, weight(2, first + k, in)).real() * rounded(p.dtype, dg).real();
            }
            const double r = 1 / (1 + std::exp(-raw));
            gradient[p.input_index(b, 0, 0, w)] =
                rounded(p.dtype, r * (1 - r) * data.state_in[p.state_index(0, b, w)].real() * sum);
        }
    return gradient;
}

TEST(RnnBound, KnowsTheProductBehindTheReset) {
    for (const char* line : {"rnn gru-reset-before bf16 b3 t1 h2 d7 weight-f32 state-in",
                             "rnn gru-reset-before f16 b3 t1 h1 d16 weight-f32 state-in",
                             "rnn gru-reset-before bf16 b9 t1 h1 d1 weight-f32 state-in seed160",
                             "rnn gru-reset-before bf16 b9 t1 h1 d1 weight-f32 state-in seed184"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        const RnnData data = make_data(p);
        const int32_t id = grad | FLASHSCAN_ARG_INPUT;
        const RnnReference reference = reference_of(p, data);
        EXPECT_TRUE(accepted(p, data, id, through_reset(p, data, reference, true), reference));
        EXPECT_FALSE(accepted(p, data, id, through_reset(p, data, reference, false), reference)) << "a term less";
    }
}

// One step in f64 with h and R rounded, as the factors of products may be.
RnnOutcome with_rounded_factors(const RnnProblem& p, RnnData data) {
    for (int64_t i = 0; i < p.state_rows() * p.width(); ++i) {
        Value& h = data.state_in[static_cast<size_t>(i)];
        h = rounded(p.dtype, h);
    }
    for (Value& r : data.weight) r = rounded(p.dtype, r);
    RnnProblem wide = p;
    wide.dtype = wide.weight_dtype = FLASHSCAN_DTYPE_F64;
    RnnOutcome outcome = run_rnn(wide, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end, 1);
    require(outcome);
    return outcome;
}

// A rounded factor takes elements next to a kink to its other side, where the gradient is another one.
TEST(RnnBound, AllowsOtherSidesNextToKinksAlone) {
    for (const char* line : {"rnn slstm bwd bf16 b17 t1 h1 d256 TBGHD state-in state-out seed48",
                             "rnn elman-relu bwd bf16 b17 t1 h1 d256 state-in state-out seed1",
                             "rnn elman-relu bwd bf16 b17 t1 h1 d256 state-in state-out seed3"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        const RnnData data = make_data(p);
        const RnnReference reference = reference_of(p, data);
        const RnnOutcome got = with_rounded_factors(p, data);
        for (const int32_t argument :
             {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN})
            EXPECT_TRUE(accepted(p, data, grad | argument, got[grad | argument], reference)) << argument;
        const Expected& expected = reference.at(grad | FLASHSCAN_ARG_INPUT);
        size_t turned = 0, loose = 0;
        for (size_t i = 0; i < expected.value.size(); ++i) {
            turned += static_cast<size_t>(std::abs(got[grad | FLASHSCAN_ARG_INPUT][i] - expected.value[i]) > 0.2);
            loose += static_cast<size_t>(expected.tolerance[i] > 0.2);
        }
        EXPECT_GT(turned, 0U) << "the case shows nothing";
        EXPECT_LT(loose, expected.value.size() / 20);
    }
}

// The product that r scales may be next to 0 where its rounding error is not.
TEST(RnnBound, KnowsTheProductThatTheResetScales) {
    for (const char* line : {"rnn gru bwd bf16 b1 t1 h2 d16 weight-f32 state-in state-out seed1017",
                             "rnn gru bwd f16 b1 t1 h1 d128 state-in state-out seed2015"}) {
        const RnnProblem p = rnn_problem_of(line);
        SCOPED_TRACE(line);
        const RnnData data = make_data(p);
        const RnnReference reference = reference_of(p, data);
        const int32_t id = grad | FLASHSCAN_ARG_WEIGHT;
        EXPECT_TRUE(accepted(p, data, id, with_rounded_factors(p, data)[id], reference));
        Values wrong = reference.at(id).value;
        for (Value& value : wrong) value *= 1.1;
        EXPECT_FALSE(accepted(p, data, id, wrong, reference));
    }
}

}  // namespace
}  // namespace numeric
