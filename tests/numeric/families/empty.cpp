// SPDX-License-Identifier: Apache-2.0
// Problems in which no sequence has a step: whatever extent is 0, every output is written. States pass through, sums
// over steps are 0, a reduction gives the state or the identity. Outputs hold NaN before each call.
#include <gtest/gtest.h>

#include <limits>

#include "support/operator_check.h"
#include "support/operators.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

// Each of the three tests runs every kernel by name and the planner of each backend.
template <typename Problem, typename Run>
void run_on(const std::vector<Target>& targets, const Problem& p, const Run& run) {
    for (const Target& target : targets) {
        if (unavailable(target.backend) != nullptr) continue;
        SCOPED_TRACE(text_of(target) + " " + text_of(p));
        const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
        if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) continue;
        ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
        run(target);
    }
}

void expect_values(const Values& got, const Values& want, const char* name) {
    ASSERT_EQ(got.size(), want.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << name << " " << i;
}
// `given`, or zeros where it is not.
void expect_passed(const Values& got, bool is_given, const Values& given, const char* name) {
    expect_values(got, is_given ? given : Values(got.size()), name);
}

struct Extents {
    int64_t batch, time, channels, sequences;
};
// Any number of steps may belong to no sequence.
constexpr Extents extents[] = {{2, 0, 7, 0}, {0, 5, 7, 0},   {2, 5, 0, 0}, {0, 0, 7, 0}, {2, 0, 0, 0}, {0, 5, 0, 0},
                               {1, 0, 1, 0}, {65, 0, 64, 0}, {1, 0, 7, 3}, {1, 5, 0, 3}, {1, 5, 7, 3}, {1, 70, 4, 5}};
std::vector<int64_t> no_steps(int64_t sequences) {
    return std::vector<int64_t>(sequences > 0 ? static_cast<size_t>(sequences + 1) : 0);
}

class EmptyLinear : public testing::TestWithParam<Target> {
  protected:
    static void check(const Problem& p) {
        run_on({GetParam()}, p, [&](const Target& target) {
            Data data = make_data(p);
            data.offsets = no_steps(p.sequences);
            data.output.resize(data.input.size());
            const Outcome forward = run_forward(p, target, data, Guard::end);
            ASSERT_NO_THROW(require(forward));
            if (p.state_out) expect_passed(forward.state_out, p.state_in, data.state_in, "STATE_OUT");
            const Outcome backward = run_backward(p, target, data, Guard::end);
            ASSERT_NO_THROW(require(backward));
            if (p.state_in) expect_passed(backward.grad_state_in, p.state_out, data.grad_state_out, "GRAD|STATE_IN");
            // Steps past the last sequence are left as they are.
            if (p.broadcasts(FLASHSCAN_BROADCAST_TIME) || p.sequences == 0)
                expect_passed(backward.grad_gate, false, {}, "GRAD|GATE");
        });
    }
};

TEST_P(EmptyLinear, EveryOutputIsWritten) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    uint64_t i = 0;
    for (const Extents& e : extents)
        for (const char* dtype : {"f32", "bf16", "f16", "f64", "c64", "c128"})
            for (uint32_t broadcast = 0; broadcast < 8; ++broadcast)
                for (const bool reverse : {false, true}) {
                    Problem p;
                    p.dtype = p.gate_dtype = dtype_named(dtype);
                    p.batch = e.batch, p.time = e.time, p.channels = e.channels, p.sequences = e.sequences;
                    p.broadcast = broadcast;
                    p.form = i % 3 == 0 ? FLASHSCAN_GATE_LOG : FLASHSCAN_GATE_VALUE;
                    p.reverse = reverse;
                    p.layout = ++i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC;
                    p.state_in = i % 4 != 0, p.state_out = i % 5 != 0;
                    p.reset = i % 7 == 0 && e.sequences == 0;
                    p.batch_invariant = i % 11 == 0, p.caller_scratch = i % 2 == 0;
                    p.offsets_dtype = i % 2 == 0 ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
                    check(p);
                    if (HasFatalFailure()) return;
                }
}

class EmptyRnn : public testing::TestWithParam<Target> {};

TEST_P(EmptyRnn, EveryOutputIsWritten) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    uint64_t i = 0;
    for (const std::string& cell : cell_words())
        for (const char* dtype : {"f32", "bf16", "f16", "f64"})
            for (const char* rest : {"b2 t0 h1 d9", "b0 t5 h2 d5", "b0 t0 h1 d1", "b3 t0 h2 d64",
                                     "b1 t0 h1 d7 sequences3", "b1 t6 h2 d33 sequences3"}) {
                RnnProblem p =
                    fitted(rnn_problem_of("rnn bwd " + std::string(dtype) + " " + cell + " " + rest), GetParam());
                p.state_in = ++i % 4 != 0, p.state_out = i % 5 != 0;
                p.reverse = i % 2 == 0, p.all_states = i % 3 == 0, p.caller_scratch = i % 3 == 1;
                p.batch_invariant = i % 7 == 0;
                run_on({GetParam()}, p, [&](const Target& target) {
                    RnnData data = make_data(p);
                    for (Value& x : data.state_in) x = rounded(state_dtype(p.dtype), x);
                    data.offsets = no_steps(p.sequences);
                    const RnnOutcome run = run_rnn(p, target, data, Guard::end);
                    ASSERT_NO_THROW(require(run));
                    if (p.state_out)
                        expect_passed(run[FLASHSCAN_ARG_STATE_OUT], p.state_in, data.state_in, "STATE_OUT");
                    if (p.state_in)
                        expect_passed(run[grad | FLASHSCAN_ARG_STATE_IN], p.state_out, data.grad_state_out,
                                      "GRAD|STATE_IN");
                    expect_passed(run[grad | FLASHSCAN_ARG_WEIGHT], false, {}, "GRAD|WEIGHT");
                    expect_passed(run[grad | FLASHSCAN_ARG_BIAS], false, {}, "GRAD|BIAS");
                });
                if (HasFatalFailure()) return;
            }
}

class EmptyOperator : public testing::TestWithParam<Target> {
  protected:
    // STATE_IN or the identity of every chain.
    static Values start(const OperatorProblem& p, const OperatorData& data) {
        if (p.state_in) return data.state_in;
        constexpr double inf = std::numeric_limits<double>::infinity();
        Values values(static_cast<size_t>(p.state_rows() * p.channels * p.element()));
        for (size_t i = 0; i < values.size(); ++i) {
            const auto place = static_cast<int64_t>(i) % p.element();
            if (p.kind == FLASHSCAN_OPERATOR_MUL || (p.matmul() && place % (p.dim + 1) == 0)) values[i] = 1;
            if (p.kind == FLASHSCAN_OPERATOR_MIN) values[i] = inf;
            if (p.kind == FLASHSCAN_OPERATOR_MAX || p.kind == FLASHSCAN_OPERATOR_LOGADDEXP) values[i] = -inf;
        }
        return values;
    }
    static void check(const OperatorProblem& p) {
        run_on({GetParam()}, p, [&](const Target& target) {
            OperatorData data = make_data(p);
            data.offsets = no_steps(p.sequences);
            const OperatorOutcome run = run_operator(p, target, data, Guard::end);
            ASSERT_NO_THROW(require(run));
            const Values state = start(p, data);
            if (p.state_out) expect_values(run[FLASHSCAN_ARG_STATE_OUT], state, "STATE_OUT");
            if (p.reduction()) {
                Values reduced = state;
                for (Value& x : reduced) x = rounded(p.dtype, x);
                expect_values(run[FLASHSCAN_ARG_OUTPUT], reduced, "OUTPUT");
            }
            if (!p.state_in) return;
            Values sum(state.size());
            for (size_t i = 0; i < sum.size(); ++i) {
                if (p.state_out) sum[i] += data.grad_state_out[i];
                if (p.reduction()) sum[i] = rounded(state_dtype(p.dtype), sum[i] + data.grad_output[i]);
            }
            expect_values(run[grad | FLASHSCAN_ARG_STATE_IN], sum, "GRAD|STATE_IN");
        });
    }
};

TEST_P(EmptyOperator, EveryOutputIsWritten) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    uint64_t i = 0;
    for (const int32_t kind : named_operators())
        for (const char* mode : {"inclusive", "exclusive", "reduction"})
            for (const Extents& e : extents)
                for (const char* dtype : {"f32", "bf16", "f16", "f64", "c64", "c128"}) {
                    if (!takes(kind, dtype_named(dtype))) continue;
                    OperatorProblem p = operator_problem_of(std::string("operator bwd ") + operator_row(kind).word +
                                                            " " + mode + " " + dtype);
                    p.batch = e.batch, p.time = e.time, p.channels = e.channels, p.sequences = e.sequences;
                    const int64_t dims[] = {1, 2, 5, e.batch > 2 ? 3 : 17};  // many states are many matrices
                    p.dim = p.matmul() || p.affine() ? dims[i % 4] : 0;
                    p.layout = ++i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC;
                    p.state_in = i % 4 != 0, p.state_out = i % 5 != 0, p.reverse = i % 2 == 0;
                    p.batch_invariant = i % 11 == 0, p.caller_scratch = i % 2 == 0;
                    check(p);
                    if (HasFatalFailure()) return;
                }
}

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

INSTANTIATE_TEST_SUITE_P(Empty, EmptyLinear, testing::ValuesIn(all_targets()), name_of_target);
INSTANTIATE_TEST_SUITE_P(Empty, EmptyRnn, testing::ValuesIn(rnn_targets()), name_of_target);
INSTANTIATE_TEST_SUITE_P(Empty, EmptyOperator, testing::ValuesIn(operator_targets()), name_of_target);

}  // namespace
}  // namespace numeric
