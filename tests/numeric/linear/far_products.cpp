// SPDX-License-Identifier: Apache-2.0
// Gates whose products over many steps leave the numbers of the arithmetic, while every state of the step-by-step loop
// stays normal: results are as near to the reference as any others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "numeric/linear/property.h"
#include "numeric/problems.h"
#include "numeric/wandering.h"

namespace numeric {
namespace {

// Products that fall below the normal numbers and grow again. CUDA forms products over a chunk in the type of the
// arithmetic and takes them for 0.
std::vector<Target> far_targets() { return on_backend(FLASHSCAN_BACKEND_CPU, all_targets()); }

void expect_close(const Comparison& comparison) { EXPECT_TRUE(comparison.ok()) << comparison.sentence; }

void expect_near_reference(const Case& c, Data data) {
    const Problem& p = c.problem;
    const Reference reference = reference_of(p, data);
    const Outcome f = run_forward(p, c.target, data, Guard::end);
    if (!c.target.kernel.empty() && f.status == FLASHSCAN_STATUS_UNSUPPORTED) GTEST_SKIP() << "kernel refuses";
    require(f);
    const int64_t end = written_time(p, data);
    expect_close(compare("OUTPUT", p.extents(), end, f.output, reference.output));
    if (p.state_out)
        expect_close(compare("STATE_OUT", {p.state_rows(), 1, p.channels}, 1, f.state_out, reference.state_out));
    if (p.dtype == FLASHSCAN_DTYPE_F16) return;  // states below its numbers have gradients above them
    const Outcome b = run_backward(p, c.target, data, Guard::start);
    require(b);
    expect_close(compare("GRAD|INPUT", p.extents(), end, b.grad_input, reference.grad_input));
    expect_close(compare("GRAD|GATE", p.extents(), end, b.grad_gate, reference.grad_gate));
    if (p.state_in)
        expect_close(
            compare("GRAD|STATE_IN", {p.state_rows(), 1, p.channels}, 1, b.grad_state_in, reference.grad_state_in));
}

Case placed(Case c, bool in_place) {
    c.problem.in_place = in_place;
    return c;
}

class FarProducts : public Property {};

TEST_P(FarProducts, WanderAwayAndBack) {
    const Problem& p = GetParam().problem;
    expect_near_reference(GetParam(), wandering_data(p, range_of(p.dtype, false)));
}

TEST_P(FarProducts, LeapAwayAndBack) {
    const Problem& p = GetParam().problem;
    expect_near_reference(GetParam(), wandering_data(p, range_of(p.dtype, true)));
}

// Halves for 130 steps, then doubles, or the other way round, in the order of computation: what is left of STATE_IN.
TEST_P(FarProducts, ReturnToOne) {
    const Problem& p = GetParam().problem;
    if (!p.state_in || p.sequences > 0 || p.reset || p.time < 260)
        GTEST_SKIP() << "without one state that lasts for 260 steps";
    const bool wide = unit_roundoff(p.dtype) < 1e-9;
    const double step = wide ? 8 : 1;
    for (const double sign : {-1.0, 1.0}) {
        Data data = make_data(p);
        std::fill(data.input.begin(), data.input.end(), 0.0);
        std::fill(data.state_in.begin(), data.state_in.end(), sign < 0 ? 1024.0 : 0x1p-20);
        for (const Sequence& s : sequences_of(p, data))
            for (int64_t i = 0; i < s.length(); ++i) {
                const double power = i < 130 ? sign * step : i < 260 ? -sign * step : 0;
                const Value g = p.form == FLASHSCAN_GATE_LOG ? power * std::numbers::ln2 : std::exp2(power);
                for (int64_t c = 0; c < p.channels; ++c) {
                    data.gate[p.gate_index(s.batch, s.step(p, i), c)] = rounded(p.gate_dtype, g);
                    if (i == 0) data.input[p.index(s.batch, s.step(p, i), c)] = rounded(p.dtype, 1e-3);
                }
            }
        const Reference reference = reference_of(p, data);
        const Values last = forward(p, data).state_out;
        expect_close(compare("STATE_OUT", {p.state_rows(), 1, p.channels}, 1, last, reference.state_out));
        if (p.form == FLASHSCAN_GATE_VALUE) {
            EXPECT_GT(std::abs(last[0]), sign < 0 ? 1024 : 0x1p-21);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Far, FarProducts, testing::ValuesIn(cases_on(far_targets(), far_problems())), name_of_case);

class Climbing : public Property {};

// Rows so long that chunks are gathered in groups.
std::vector<Problem> long_problems() {
    return problems_of({"linear f32 BCT b1 t600000 c1 state-in state-out seed31",
                        "linear f32 BCT b1 t300000 c2 reverse state-in state-out seed32",
                        "linear bf16 BTC b1 t20000 c32 state-in state-out seed33",
                        "linear bf16 BTC b1 t20000 c32 reverse state-in state-out seed34",
                        "linear f32 BTC b1 t8000 c64 state-in state-out seed35"});
}
std::vector<Target> cuda_targets() {
    std::vector<Target> targets = all_targets();
    std::erase_if(targets, [](const Target& target) { return target.backend == FLASHSCAN_BACKEND_CPU; });
    return targets;
}

// Rows with one gate, whose gradient is a sum.
std::vector<Problem> shared_gate_problems() {
    return problems_of({"linear f32 BTC b2 t700 c64 broadcast-c state-in state-out seed36",
                        "linear f32 BTC b1 t1300 c70 broadcast-bc reverse state-in state-out seed37",
                        "linear bf16 BTC b2 t900 c66 broadcast-c state-in state-out seed38",
                        "linear bf16 BTC b1 t900 c33 broadcast-c reverse state-in state-out seed39",
                        "linear f64 BTC b2 t700 c40 broadcast-c state-in state-out seed40",
                        "linear f32 BCT b2 t1100 c5 broadcast-c state-in state-out seed41",
                        "linear f32 BCT b3 t1100 c5 broadcast-b state-in state-out seed42",
                        "linear f32 BTC b7 t700 c64 broadcast-b state-in state-out seed60",
                        "linear bf16 BTC b3 t900 c66 broadcast-b reverse state-in state-out seed61",
                        "linear f64 BTC b2 t700 c40 broadcast-b state-in state-out seed62",
                        "linear bf16 BCT b2 t1104 c7 broadcast-c state-in state-out seed63",
                        "linear f32 BCT b8 t1100 c3 broadcast-b reverse state-in state-out seed64",
                        "linear f32 BCT b8 t8300 c32 broadcast-b reverse state-in state-out seed65",
                        "linear bf16 BTC b3 t900 c66 broadcast-b form-log state-in state-out seed66",
                        "linear bf16 BTC b7 t900 c64 broadcast-b form-log reverse seed67",
                        "linear f16 BCT b8 t2104 c5 broadcast-b form-log reverse state-in state-out seed68",
                        "linear f32 BCT b8 t2104 c5 broadcast-b reverse place-padded seed69",
                        "linear bf16 BTC b7 t900 c64 broadcast-b place-spread state-in seed70"});
}
std::vector<Problem> one_gate_problems() {
    return problems_of({"linear f32 BTC b2 t310 c64 broadcast-t state-in state-out seed43",
                        "linear f32 BTC b1 t290 c70 broadcast-tc reverse state-in state-out seed44",
                        "linear bf16 BTC b2 t300 c66 broadcast-bt state-in state-out seed45",
                        "linear bf16 BTC b1 t300 c33 broadcast-btc reverse state-in state-out seed46",
                        "linear f64 BTC b2 t300 c40 broadcast-t state-in state-out seed47",
                        "linear f32 BCT b2 t1100 c5 broadcast-t state-in state-out seed48",
                        "linear f32 BCT b3 t9100 c3 broadcast-bt reverse state-in state-out seed49",
                        "linear bf16 BCT b2 t2100 c5 broadcast-t state-in state-out seed50",
                        "linear f64 BCT b1 t1100 c5 broadcast-btc state-in state-out seed51",
                        "linear f32 BTC b1 t800 c40 broadcast-t sequences3 state-in state-out seed56",
                        "linear f32 BTC b1 t800 c40 broadcast-t sequences3 invariant state-in state-out seed57",
                        "linear f32 BCT b1 t9000 c3 broadcast-t sequences2 invariant reverse state-in state-out "
                        "seed58",
                        "linear bf16 BTC b1 t800 c33 broadcast-tc sequences2 invariant state-in state-out seed59"});
}

TEST_P(Climbing, FromAnInputThatFollowsAGateOfZero) {
    const Problem& p = GetParam().problem;
    expect_near_reference(GetParam(), climbing_data(p));
}

// Steps are gone where results have taken their place.
TEST_P(Climbing, InPlace) {
    const Case c = placed(GetParam(), true);
    expect_near_reference(c, climbing_data(c.problem));
}

// Gates of 2 for 300 steps, which no state enters and, past a gate of 0, no gradient; then gates of a half.
Data data_with_nothing_to_carry(const Problem& p) {
    Data data = make_data(p);
    std::fill(data.state_in.begin(), data.state_in.end(), 0.0);
    for (const Sequence& s : sequences_of(p, data))
        for (int64_t i = 0; i < s.length(); ++i)
            for (int64_t c = 0; c < p.channels; ++c) {
                const int64_t t = s.step(p, i), climbs = std::min<int64_t>(300, s.length() / 2);
                const double power = i < climbs ? 1 : i == climbs ? -2000 : -1;
                const Value g = p.form == FLASHSCAN_GATE_LOG ? power * std::numbers::ln2 : std::exp2(power);
                data.gate[p.gate_index(s.batch, t, c)] = rounded(p.gate_dtype, g);
                if (i >= climbs) continue;
                data.input[p.index(s.batch, t, c)] = 0;
                data.grad_output[p.index(s.batch, t, c)] = 0;
            }
    return data;
}

TEST_P(Climbing, WithNothingToCarry) {
    expect_near_reference(GetParam(), data_with_nothing_to_carry(GetParam().problem));
}

TEST_P(Climbing, WithNothingToCarryInPlace) {
    const Case c = placed(GetParam(), true);
    expect_near_reference(c, data_with_nothing_to_carry(c.problem));
}

INSTANTIATE_TEST_SUITE_P(Far, Climbing, testing::ValuesIn(cases_on(all_targets(), far_problems())), name_of_case);
INSTANTIATE_TEST_SUITE_P(LongAndFar, Climbing, testing::ValuesIn(cases_on(cuda_targets(), long_problems())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SharedGates, Climbing, testing::ValuesIn(cases_on(all_targets(), shared_gate_problems())),
                         name_of_case);

class Growing : public Property {};

// One gate above 1 for all steps of a row takes states and gradients from almost nothing through half of the range,
// and its powers out of it.
TEST_P(Growing, FromAlmostNothing) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    const double range = unit_roundoff(p.dtype) < 1e-9 ? 1023 : 127, time = static_cast<double>(p.time);
    std::fill(data.gate.begin(), data.gate.end(), rounded(p.gate_dtype, std::exp2(1.3 * range / time)));
    std::fill(data.input.begin(), data.input.end(), 0.0);
    std::fill(data.grad_output.begin(), data.grad_output.end(), 0.0);
    for (Values* edge : {&data.state_in, &data.grad_state_out})
        for (Value& v : *edge) v = rounded(state_dtype(p.dtype), v * std::exp2(-0.8 * range));
    for (const bool in_place : {false, true}) expect_near_reference(placed(GetParam(), in_place), data);
}

class Infinity : public Property {};

// Chunks of groups of which nothing is wanted but the carry that leaves the last one.
TEST_P(Infinity, PassesChunks) {
    const Case& c = GetParam();
    Data data = make_data(c.problem);
    std::fill(data.gate.begin(), data.gate.end(), 2.0);
    std::fill(data.grad_output.begin(), data.grad_output.end(), 0.0);
    std::fill(data.grad_state_out.begin(), data.grad_state_out.end(), 1.0);
    for (const double special : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
        data.grad_output[600000] = data.grad_output[100000] = special;
        const Outcome b = run_backward(c.problem, c.target, data, Guard::start);
        if (!c.target.kernel.empty() && b.status == FLASHSCAN_STATUS_UNSUPPORTED) GTEST_SKIP() << "kernel refuses";
        require(b);
        const double got = b.grad_state_in[0].real();
        EXPECT_TRUE(special == 0 ? got == HUGE_VAL : std::isnan(got)) << got;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Far, Infinity,
    testing::ValuesIn(cases_on(all_targets(),
                               {problem_of("linear f64 BCT b1 t700000 c1 state-in state-out grads-s seed60")})),
    name_of_case);
INSTANTIATE_TEST_SUITE_P(OneGate, Growing, testing::ValuesIn(cases_on(all_targets(), one_gate_problems())),
                         name_of_case);

class Halving : public Property {};

// Products of gates fall below the normal numbers and stay there: whether they count as 0 is below the bound.
TEST_P(Halving, DecayToNothing) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    for (Value& g : data.gate) g = rounded(p.gate_dtype, p.form == FLASHSCAN_GATE_LOG ? -0.7 : 0.5);
    expect_near_reference(GetParam(), data);
}

INSTANTIATE_TEST_SUITE_P(Far, Halving, testing::ValuesIn(cases_on(all_targets(), far_problems())), name_of_case);

}  // namespace
}  // namespace numeric
