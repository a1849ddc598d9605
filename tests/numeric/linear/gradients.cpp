// SPDX-License-Identifier: Apache-2.0
// Properties in 64 bits: linearity, and gradients against finite differences and as adjoints.
#include <cmath>

#include "numeric/linear/property.h"

namespace numeric {
namespace {

void expect_near(const Values& got, const Values& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_LE(std::abs(got[i] - want[i]), tolerance * (1 + std::abs(want[i]))) << "value " << i;
}

Values combined(double alpha, const Values& x, double beta, const Values& y) {
    Values z(x.size());
    for (size_t i = 0; i < z.size(); ++i) z[i] = alpha * x[i] + beta * y[i];
    return z;
}

class Wide : public Property {};

TEST_P(Wide, IsLinearInInputAndState) {
    const Problem& p = GetParam().problem;
    Problem other = p;
    other.seed += 1;
    Data x = make_data(p), y = make_data(other);
    y.gate = x.gate;
    y.reset = x.reset;
    Data z = x;
    z.input = combined(0.75, x.input, -1.5, y.input);
    if (p.state_in) z.state_in = combined(0.75, x.state_in, -1.5, y.state_in);
    expect_near(forward(p, z).output, combined(0.75, forward(p, x).output, -1.5, forward(p, y).output), 1e-12);
}

TEST_P(Wide, HasItsGradientAsAdjoint) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    const Outcome f = forward(p, data);
    data.output = f.output;
    const Outcome g = backward(p, data);
    Value left = 0, right = 0;
    for (size_t i = 0; i < data.input.size(); ++i) {
        left += std::conj(data.grad_output[i]) * f.output[i];
        right += std::conj(g.grad_input[i]) * data.input[i];
    }
    for (size_t i = 0; i < data.state_in.size(); ++i) {
        left += std::conj(data.grad_state_out[i]) * f.state_out[i];
        right += std::conj(g.grad_state_in[i]) * data.state_in[i];
    }
    EXPECT_LE(std::abs(left - right), 1e-11 * (1 + std::abs(left)));
}

// Re <dh, h> + Re <d_out, h[T-1]>, whose gradients are those that backward gives.
double loss(const Outcome& f, const Data& data) {
    double sum = 0;
    for (size_t i = 0; i < f.output.size(); ++i) sum += (std::conj(data.grad_output[i]) * f.output[i]).real();
    for (size_t i = 0; i < f.state_out.size(); ++i) sum += (std::conj(data.grad_state_out[i]) * f.state_out[i]).real();
    return sum;
}

TEST_P(Wide, AgreesWithFiniteDifferences) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    data.output = forward(p, data).output;
    const Outcome g = backward(p, data);
    const auto check = [&](const char* name, Values& values, int32_t dtype, const Values& gradient) {
        for (uint64_t k = 0; k < 6 && !values.empty(); ++k) {
            const auto i = static_cast<size_t>(uniform(p.seed, 900, k) * static_cast<double>(values.size()));
            for (const Value direction : {Value(1, 0), Value(0, 1)}) {
                if (direction.imag() != 0 && !is_complex(dtype)) continue;
                constexpr double h = 1e-5;
                const Value saved = values[i];
                values[i] = saved + h * direction;
                const double above = loss(forward(p, data), data);
                values[i] = saved - h * direction;
                const double below = loss(forward(p, data), data);
                values[i] = saved;
                const double slope = direction.imag() != 0 ? gradient[i].imag() : gradient[i].real();
                EXPECT_NEAR((above - below) / (2 * h), slope, 1e-6 * (1 + std::abs(slope))) << name << " " << i;
            }
        }
    };
    check("INPUT", data.input, p.dtype, g.grad_input);
    check("GATE", data.gate, p.gate_dtype, g.grad_gate);
    if (p.state_in) check("STATE_IN", data.state_in, p.dtype, g.grad_state_in);
}

std::vector<Problem> wide_problems() {
    std::vector<Problem> problems;
    for (const auto& [dtype, gate] : {std::pair<int32_t, int32_t>{FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64},
                                      {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_C128},
                                      {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_F64}})
        for (const int32_t form : {FLASHSCAN_GATE_VALUE, FLASHSCAN_GATE_LOG, FLASHSCAN_GATE_LOGIT}) {
            Problem p;
            p.dtype = dtype;
            p.gate_dtype = gate;
            p.form = form;
            p.batch = 2;
            p.time = 83;
            p.channels = 3;
            p.seed = 600 + problems.size();
            p.layout = p.seed % 2 == 0 ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
            p.broadcast = static_cast<uint32_t>(problems.size() % 8);
            p.reverse = problems.size() % 3 == 1;
            p.reset = problems.size() % 4 == 2;
            p.state_in = p.state_out = true;
            p.threads = 1;
            problems.push_back(p);
        }
    return problems;
}

INSTANTIATE_TEST_SUITE_P(Properties, Wide, testing::ValuesIn(cases_on(all_targets(), wide_problems())), name_of_case);

}  // namespace
}  // namespace numeric
