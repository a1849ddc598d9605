// SPDX-License-Identifier: Apache-2.0
// Gradients of associative operators in 64 bits against finite differences, element by element.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/operator_check.h"
#include "support/operators.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

class OperatorWide : public testing::TestWithParam<OperatorCase> {};

// The function whose gradients backward gives. Steps that belong to no sequence do not count, nor do infinite
// identities.
double loss(const OperatorProblem& p, const OperatorData& data, const OperatorOutcome& outcome) {
    double sum = 0;
    const Values& y = outcome[FLASHSCAN_ARG_OUTPUT];
    const auto e = p.output_extents();
    const int64_t end = p.reduction() ? e[1] : written_time(p, data);
    for (size_t i = 0; i < y.size(); ++i)
        if (static_cast<int64_t>(i) / e[2] % e[1] < end && std::isfinite(std::abs(y[i])))
            sum += (std::conj(data.grad_output[i]) * y[i]).real();
    for (size_t i = 0; i < data.grad_state_out.size(); ++i)
        sum += (std::conj(data.grad_state_out[i]) * outcome[FLASHSCAN_ARG_STATE_OUT][i]).real();
    return sum;
}

TEST_P(OperatorWide, HasTheGradientsOfFiniteDifferences) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    OperatorProblem p = GetParam().problem;
    const OperatorData data = make_data(p);
    const auto run = [&](const OperatorData& d) {
        OperatorOutcome outcome = run_operator(p, GetParam().target, d, Guard::end, 1);
        require(outcome);
        return outcome;
    };
    const OperatorOutcome gradients = run(data);
    p.backward = false;
    const auto slope = [&](Values OperatorData::*values, size_t i, Value h) {
        OperatorData ahead = data, behind = data;
        (ahead.*values)[i] += h;
        (behind.*values)[i] -= h;
        return (loss(p, ahead, run(ahead)) - loss(p, behind, run(behind))) / (2 * std::abs(h));
    };
    const auto check = [&](Values OperatorData::*values, int32_t argument, const std::array<int64_t, 3>& e,
                           int64_t end) {
        const Values& got = gradients[grad | argument];
        ASSERT_EQ(got.size(), (data.*values).size());
        for (size_t i = 0; i < got.size(); ++i) {
            if (static_cast<int64_t>(i) / e[2] % e[1] >= end) continue;
            constexpr double h = 1e-6;
            const double tolerance = 1e-7 * (1 + std::abs(got[i]));
            EXPECT_NEAR(got[i].real(), slope(values, i, h), tolerance) << "argument " << argument << " element " << i;
            if (!is_complex(p.dtype)) continue;
            EXPECT_NEAR(got[i].imag(), slope(values, i, Value(0, h)), tolerance)
                << "argument " << argument << " imaginary part of element " << i;
        }
    };
    const int64_t end = written_time(p, data);
    check(&OperatorData::input, FLASHSCAN_ARG_INPUT, p.extents(p.element()), end);
    if (p.affine()) check(&OperatorData::gate, FLASHSCAN_ARG_GATE, p.extents(p.gate_element()), end);
    if (p.state_in) check(&OperatorData::state_in, FLASHSCAN_ARG_STATE_IN, p.state_extents(), 1);
}

std::vector<OperatorProblem> problems() {
    std::vector<OperatorProblem> list;
    for (const int32_t kind : named_operators())
        for (const char* mode : {"inclusive", "exclusive", "reduction"})
            for (const char* rest :
                 {"f64 b2 t5 c2 state-in state-out values-sign", "f64 b1 t9 c1 sequences3 reverse seed2",
                  "c128 b1 t4 c2 BCT state-in values-sign seed3"}) {
                const flashscan::OperatorRow& row = operator_row(kind);
                const OperatorProblem p = operator_problem_of(
                    fmt::format("operator bwd {} {} {} {}", row.word, row.on_numbers ? "" : "d3", mode, rest));
                if (takes(kind, p.dtype)) list.push_back(p);
            }
    return list;
}

INSTANTIATE_TEST_SUITE_P(Operator, OperatorWide, testing::ValuesIn(cases_on(operator_targets(), problems())),
                         name_of_operator_case);

}  // namespace
}  // namespace numeric
