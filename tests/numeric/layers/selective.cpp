// SPDX-License-Identifier: Apache-2.0
// Selective scans: kernels against the reference; the reference against a loop and finite differences of this file; a
// sequence stepped one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "support/pairwise.h"
#include "support/selective_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

class SelectiveCases : public testing::TestWithParam<SelectiveCase> {};

TEST_P(SelectiveCases, AreWithinTheBound) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

SelectiveProblem problem_of_row(const std::vector<int>& row, uint64_t seed) {
    constexpr int32_t dtypes[] = {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64};
    constexpr int64_t times[] = {1, 2, 37, 150}, channels[] = {1, 6, 18, 70}, states[] = {1, 3, 16, 40};
    constexpr uint32_t gradients[] = {0x1ff, 0x1ff, 0, 0x001, 0x18a, 0x074};
    SelectiveProblem p;
    p.dtype = dtypes[row[0]];
    p.layout = row[1] == 0 ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
    p.complex = row[2] == 0 && (row[0] == 0 || row[0] == 3);
    p.batch = 1 + row[3] * 2;
    p.time = times[row[4]];
    p.channels = channels[row[5]];
    p.states = states[row[6]];
    p.b_per_step = row[7] != 1;
    p.c_per_step = row[8] != 1;
    p.groups = row[9] == 0 && p.channels > 1 && (p.b_per_step || p.c_per_step) ? 2 : 1;
    p.softplus = row[10] == 0;
    p.gate = row[11] == 0;
    p.skip = row[12] == 0;
    p.bias = row[13] == 0;
    p.reverse = row[14] == 1;
    p.reset = row[15] == 1;
    p.state_in = row[16] == 1;
    p.state_out = row[17] == 1;
    if (row[18] > 0) {
        p.batch = 1;
        p.sequences = row[18] == 1 ? 1 : 4;
        p.offsets_dtype = row[18] == 1 ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
    }
    p.gradients = gradients[row[19]];
    p.placement = static_cast<Placement>(row[20]);
    p.in_place = row[21] == 1;
    p.pooled = row[22] == 1;
    p.batch_invariant = row[23] == 1;
    p.caller_scratch = row[23] == 2;
    p.threads = row[24];
    p.seed = seed;
    return p;
}

std::vector<SelectiveProblem> pairs() {
    std::vector<SelectiveProblem> problems;
    for (const auto& row :
         pairwise_rows({4, 2, 3, 2, 4, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 6, placement_count, 2, 2, 3, 4}, 11))
        problems.push_back(problem_of_row(row, 1 + problems.size()));
    return problems;
}

// Sizes about a vector of channels, a tile of steps and a panel of states; steps that are cut into segments; empty
// ones; the most states; states that forget at every step, and stay in segments and sequences without any.
std::vector<SelectiveProblem> shapes() {
    std::vector<SelectiveProblem> problems;
    for (const char* line :
         {"f32 b2 t130 c33 n16 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "bf16 BCT b2 t260 c40 n16 b-per-step c-per-step softplus gate skip bias",
          "f32 b1 t70 c17 n256 b-per-step c-per-step",
          "f64 b1 t515 c9 n5 b-per-step c-per-step reset state-in gate",
          "f32 complex b1 t129 c19 n8 b-per-step skip",
          "f16 b1 t300 c48 n4 g3 b-per-step c-per-step sequences7 state-in state-out softplus",
          "f32 BCT b5 t1 c64 n16 b-per-step c-per-step gate state-in state-out",
          "f32 b3 t257 c16 n17 threads3 gate",
          "f32 b1 t64 c2100 n2 c-per-step",
          "f32 b1 t2100 c9 n16 b-per-step c-per-step softplus gate skip bias",
          "bf16 BCT b2 t1500 c5 n5 b-per-step c-per-step reset reverse state-in state-out softplus gate",
          "f32 complex b1 t1100 c3 n4 c-per-step reset state-in state-out gate",
          "f64 BCT b1 t800 c3 n70 b-per-step c-per-step reverse state-in state-out",
          "f32 b40 t3 c5 n3 b-per-step reverse state-in state-out",
          "f32 b0 t4 c3 n2 b-per-step",
          "f32 b2 t0 c3 n2 state-in state-out c-per-step",
          "f32 b2 t5 c0 n2 b-per-step c-per-step gate",
          "f32 b1 t700 c3 n2 g3 b-per-step c-per-step softplus",
          "bf16 b9 t1 c20 n16 b-per-step c-per-step softplus gate skip bias state-in state-out pooled",
          "f16 b6 t3 c12 n64 g2 b-per-step c-per-step softplus skip reverse state-in state-out",
          "f32 b1 t2100 c9 n16 b-per-step c-per-step softplus gate state-in state-out forgets grads-uzABCs",
          "f32 b1 t1500 c6 n4 sequences40 b-per-step softplus state-in state-out forgets grads-uABCs",
          "f64 complex b1 t900 c3 n2 sequences9 reverse softplus state-in state-out forgets grads-uABCs",
          "f32 b2 t130 c33 n16 b-per-step c-per-step softplus far-deltas gate skip bias state-in state-out",
          "bf16 BCT b1 t70 c18 n16 b-per-step c-per-step softplus far-deltas bias state-in state-out",
          "f64 b1 t150 c9 n5 b-per-step softplus far-deltas state-in state-out",
          "f32 complex b1 t129 c19 n8 b-per-step softplus far-deltas skip"})
        problems.push_back(selective_problem_of(std::string("selective ") + line));
    return problems;
}

INSTANTIATE_TEST_SUITE_P(SelectivePairs, SelectiveCases, testing::ValuesIn(cases_on(selective_targets(), pairs())),
                         name_of_selective_case);
INSTANTIATE_TEST_SUITE_P(SelectiveShapes, SelectiveCases, testing::ValuesIn(cases_on(selective_targets(), shapes())),
                         name_of_selective_case);

// The equations of the header, apart from the library.
TEST(SelectiveReference, IsTheLoop) {
    for (const char* line :
         {"selective f64 b2 t9 c4 n3 g2 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "selective f64 complex b1 t7 c3 n2 c-per-step state-in state-out skip reverse"}) {
        const SelectiveProblem p = selective_problem_of(line);
        const SelectiveData data = make_data(p);
        const SelectiveOutcome got = run_selective(p, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end);
        require(got);
        const auto value = [&](int32_t id, size_t i) { return data.values.contains(id) ? data.values.at(id)[i] : 0; };
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t c = 0; c < p.channels; ++c) {
                const auto channel = static_cast<size_t>(c);
                Values h;
                for (int64_t n = 0; n < p.states; ++n) h.push_back(value(FLASHSCAN_ARG_STATE_IN, p.state_at(b, c, n)));
                for (int64_t i = 0; i < p.time; ++i) {
                    const int64_t t = p.reverse ? p.time - 1 - i : i;
                    const size_t at = p.at(b, t, c);
                    double d = (value(FLASHSCAN_ARG_DELTA, at) + value(FLASHSCAN_ARG_BIAS, channel)).real();
                    if (p.softplus) d = std::log(1 + std::exp(d));
                    const double u = value(FLASHSCAN_ARG_INPUT, at).real();
                    double y = value(FLASHSCAN_ARG_D, channel).real() * u;
                    for (int64_t n = 0; n < p.states; ++n) {
                        Value& one = h[static_cast<size_t>(n)];
                        one = std::exp(d * value(FLASHSCAN_ARG_A, p.matrix_at(false, 0, 0, c, n))) * one +
                              d * u * value(FLASHSCAN_ARG_B, p.matrix_at(p.b_per_step, b, t, c, n));
                        const Value term = value(FLASHSCAN_ARG_C, p.matrix_at(p.c_per_step, b, t, c, n)) * one;
                        y += (p.complex ? 2 : 1) * term.real();
                    }
                    const double z = value(FLASHSCAN_ARG_OUTPUT_GATE, at).real();
                    if (p.gate) y *= z / (1 + std::exp(-z));
                    EXPECT_NEAR(got[FLASHSCAN_ARG_OUTPUT][at].real(), y, 1e-13) << line << " t " << t;
                }
                for (int64_t n = 0; n < p.states; ++n)
                    EXPECT_NEAR(std::abs(got[FLASHSCAN_ARG_STATE_OUT][p.state_at(b, c, n)] - h[static_cast<size_t>(n)]),
                                0, 1e-13);
            }
    }
}

class SelectiveWide : public testing::TestWithParam<SelectiveCase> {};

// The function whose gradients backward gives, of a forward call that has run. Steps that belong to no sequence do not
// count.
double loss(const SelectiveProblem& p, const SelectiveData& data, const Call& call) {
    double sum = 0;
    const Values output = call.values(FLASHSCAN_ARG_OUTPUT);
    const auto product = [](Value a, Value b) { return a.real() * b.real() + a.imag() * b.imag(); };
    for (const Sequence& q : sequences_of(p.batch, p.time, data.offsets))
        for (int64_t t = q.begin; t < q.end; ++t)
            for (int64_t c = 0; c < p.channels; ++c) {
                const size_t i = p.at(q.batch, t, c);
                sum += product(data.values.at(grad | FLASHSCAN_ARG_OUTPUT)[i], output[i]);
            }
    if (!p.state_out) return sum;
    const Values state = call.values(FLASHSCAN_ARG_STATE_OUT);
    for (size_t i = 0; i < state.size(); ++i)
        sum += product(data.values.at(grad | FLASHSCAN_ARG_STATE_OUT)[i], state[i]);
    return sum;
}

TEST_P(SelectiveWide, HasTheGradientsOfFiniteDifferences) {
    const SelectiveProblem& p = GetParam().problem;
    const Target& target = GetParam().target;
    SKIP_UNLESS_AVAILABLE(target);
    const SelectiveData data = make_data(p);
    const SelectiveOutcome gradients = run_selective(p, target, data, Guard::end);
    if (!target.kernel.empty() && gradients.status == FLASHSCAN_STATUS_UNSUPPORTED) GTEST_SKIP() << gradients.message;
    require(gradients);
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    Call call = forward_call(p, plan, target.backend, data, Guard::end);
    const auto slope = [&](int32_t argument, size_t i, Value direction) {
        constexpr double h = 1e-6;
        Values changed = data.values.at(argument);
        const auto loss_at = [&](double shift) {
            changed[i] = data.values.at(argument)[i] + shift * direction;
            call.set_input(argument, changed);
            EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return loss(p, data, call);
        };
        const double difference = loss_at(h) - loss_at(-h);
        call.set_input(argument, data.values.at(argument));
        return difference / (2 * h);
    };
    const int64_t end = written_time(p, data);
    for (const int32_t argument : selective_gradients) {
        if (!has_argument(p, argument)) continue;
        const Values& got = gradients[grad | argument];
        const Tensor tensor = tensor_of(p, argument);
        double largest = 0;
        for (size_t i = 0; i < got.size(); ++i) {
            if (has_steps(p, argument) && static_cast<int64_t>(i) / tensor.extents[2] % p.time >= end) continue;
            largest = std::max(largest, std::abs(got[i]));
            EXPECT_NEAR(got[i].real(), slope(argument, i, 1), 2e-7 * (1 + std::abs(got[i])))
                << "argument " << argument << " element " << i;
            if (!is_complex(dtype_of(p, argument))) continue;
            EXPECT_NEAR(got[i].imag(), slope(argument, i, {0, 1}), 2e-7 * (1 + std::abs(got[i])))
                << "argument " << argument << " element " << i << ", imaginary part";
        }
        EXPECT_GT(largest, 1e-3) << "argument " << argument;
    }
}

std::vector<SelectiveProblem> wide_problems() {
    std::vector<SelectiveProblem> problems;
    for (const char* line :
         {"b2 t6 c4 n3 g2 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "b1 t7 c3 n2 softplus gate bias", "b2 t5 c2 n4 BCT b-per-step reverse reset skip state-in state-out seed2",
          "b1 t11 c3 n2 c-per-step sequences3 gate state-in state-out seed3",
          "b2 t5 c3 n2 complex b-per-step c-per-step softplus gate skip bias state-in state-out",
          "b1 t6 c2 n3 complex reset gate state-in seed4"})
        problems.push_back(selective_problem_of(std::string("selective f64 ") + line));
    return problems;
}

INSTANTIATE_TEST_SUITE_P(Selective, SelectiveWide, testing::ValuesIn(cases_on(selective_targets(), wide_problems())),
                         name_of_selective_case);

// One step at a time, each from the state that the step before left: the bits of one call.
TEST(SelectiveSteps, OneByOneGiveTheSequence) {
    SelectiveProblem whole = selective_problem_of(
        "selective f32 b3 t6 c20 n16 b-per-step c-per-step softplus gate skip bias state-in state-out");
    const SelectiveData data = make_data(whole);
    const SelectiveOutcome all = run_selective(whole, {}, data, Guard::end);
    require(all);
    SelectiveProblem one = whole;
    one.time = 1;
    one.gradients = 0;
    Values state = data.values.at(FLASHSCAN_ARG_STATE_IN);
    for (int64_t t = 0; t < whole.time; ++t) {
        SelectiveData step = data;
        for (auto& [id, values] : step.values) {
            if (!has_steps(whole, id)) continue;
            const int64_t width = tensor_of(whole, id).extents[2];
            Values part;
            for (int64_t b = 0; b < whole.batch; ++b)
                for (int64_t i = 0; i < width; ++i)
                    part.push_back(values[static_cast<size_t>((b * whole.time + t) * width + i)]);
            values = part;
        }
        step.values[FLASHSCAN_ARG_STATE_IN] = state;
        const SelectiveOutcome got = run_selective(one, {}, step, Guard::end);
        require(got);
        state = got[FLASHSCAN_ARG_STATE_OUT];
        for (int64_t b = 0; b < whole.batch; ++b)
            for (int64_t c = 0; c < whole.channels; ++c)
                EXPECT_EQ(got[FLASHSCAN_ARG_OUTPUT][one.at(b, 0, c)], all[FLASHSCAN_ARG_OUTPUT][whole.at(b, t, c)]);
    }
    EXPECT_TRUE(state == all[FLASHSCAN_ARG_STATE_OUT]);
}

// The bits depend neither on the threads nor, under BATCH_INVARIANT, on the rows beside them.
TEST(SelectiveBits, AreThoseOfOneThread) {
    for (const char* line : {"selective f32 b3 t300 c70 n16 b-per-step c-per-step softplus gate skip bias threads1",
                             "selective bf16 BCT b1 t200 c100 n4 g2 b-per-step c-per-step threads1",
                             "selective f32 b1 t300 c20 n8 b-per-step sequences9 state-in state-out threads1"}) {
        SelectiveProblem p = selective_problem_of(line);
        const SelectiveData data = make_data(p);
        const SelectiveOutcome alone = run_selective(p, {}, data, Guard::end);
        require(alone);
        for (const int threads : {2, 3, 7}) {
            p.threads = threads;
            const SelectiveOutcome several = run_selective(p, {}, data, Guard::end);
            require(several);
            EXPECT_EQ(several.bits, alone.bits) << line << " threads " << threads;
        }
    }
}

// FLASHSCAN_TEST_SELECTIVE_CASE runs one problem line, as a failure prints it.
TEST(SelectiveRepro, CaseOfTheEnvironment) {
    const char* line = std::getenv("FLASHSCAN_TEST_SELECTIVE_CASE");
    if (line == nullptr) GTEST_SKIP() << "FLASHSCAN_TEST_SELECTIVE_CASE is not set";
    const char* wanted = std::getenv("FLASHSCAN_TEST_TARGET");
    for (const Target& target : selective_targets())
        if (wanted == nullptr || text_of(target) == wanted) check_case({selective_problem_of(line), target});
}

TEST(SelectiveRepro, LinesReadBack) {
    for (const auto& list : {pairs(), shapes()})
        for (const SelectiveProblem& p : list) EXPECT_EQ(text_of(selective_problem_of(text_of(p))), text_of(p));
    // These lines are as flashscan_bench prints them.
    for (const char* line : {"selective fwd bf16 BTC b8 t2048 c2048 n16 b-per-step c-per-step softplus gate skip bias",
                             "selective bwd f32 BCT b1 t9 c6 n4 g2 complex b-per-step sequences3 grads-uBC seed7"})
        EXPECT_EQ(text_of(selective_problem_of(line)), line);
    for (const char* line : {"selective f32 q3", "selective n", "selective n3x", "selective offsets-i31"})
        EXPECT_THROW(selective_problem_of(line), std::invalid_argument) << line;
}

}  // namespace
}  // namespace numeric
