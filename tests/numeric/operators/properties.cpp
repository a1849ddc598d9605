// SPDX-License-Identifier: Apache-2.0
// What holds between results of associative operators: modes, threads, cuts of time, other families, known values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support/call.h"
#include "support/operator_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int32_t output_id = FLASHSCAN_ARG_OUTPUT, state_id = FLASHSCAN_ARG_STATE_OUT;

class OperatorBits : public OperatorOnTarget {};
class OperatorModes : public OperatorOnTarget {};
class OperatorStates : public OperatorOnTarget {};
class OperatorMemory : public OperatorOnTarget {};
class OperatorValuesOf : public OperatorOnTarget {};

// Both signs of what makes kernels cut time and share work. Matrices that are shared out by rows need fewer steps for
// it.
std::vector<std::string> lines() {
    std::vector<std::string> list;
    for (const char* kind : {"add", "mul", "logaddexp", "max", "matmul d3", "matmul d20", "affine d3"}) {
        const std::string words = kind, steps = words == "matmul d20" ? "t1501" : "t9001";
        for (const std::string& rest : {"b1 c1 " + steps, "b1 c1 BCT reverse state-in " + steps,
                                        std::string("b2 t33 c17 state-in"), std::string("b3 t700 c2")})
            list.push_back("operator f32 state-out " + words + " " + rest);
    }
    return list;
}

TEST_P(OperatorBits, OfAReductionAreThoseOfTheScansLast) {
    std::vector<std::string> all = lines();
    for (const char* rest : {"d64 b1 t700", "d64 b2 t501 state-in", "d100 b1 t300 state-in reverse"})
        all.push_back(std::string("operator f32 c1 state-out matmul ") + rest);
    // Short rows whose lanes all have steps, and others.
    for (const char* numbers : {"add f32", "mul bf16", "logaddexp f32"})
        for (const char* rest : {"b1 t24 c1", "b2 t256 c3 BCT", "b1 t384 c2 BCT reverse", "b3 t100 c5 BCT state-in",
                                 "b2 t99 c7 BCT reverse state-in"})
            all.push_back(std::string("operator state-out ") + numbers + " " + rest);
    for (const std::string& line : all) {
        OperatorProblem p = operator_problem_of("fwd " + line);
        const OperatorData data = make_data(p);
        const OperatorOutcome scan = run(p, data);
        p.mode = FLASHSCAN_MODE_REDUCTION;
        const OperatorOutcome sum = run(p, data);
        EXPECT_TRUE(scan.bits.at(state_id) == sum.bits.at(state_id)) << line;
        const auto e = static_cast<size_t>(p.element());
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t c = 0; c < p.channels; ++c)
                for (size_t i = 0; i < e; ++i)
                    ASSERT_EQ(sum[output_id][p.state_place(b, c) + i],
                              scan[output_id][p.place(b, p.reverse ? 0 : p.time - 1, c, p.element()) + i])
                        << line;
    }
}

TEST(OperatorThreads, LeaveEveryBit) {
    std::vector<std::string> all;
    for (const std::string& line : lines()) all.push_back("bwd " + line);
    // Of INDEX, threads share out the channels of few rows.
    for (const char* line :
         {"max f32 b1 t300 c100 state-in", "min bf16 b1 t70 c300 sequences3", "max u8 b2 t90 c40 reverse",
          "min f64 b1 t600 c37 BCT exclusive", "max i64 b3 t40 c19", "max f16 b1 t100 c50 reduction"})
        all.push_back(std::string("fwd index ") + line);
    for (const std::string& line : all) {
        OperatorProblem p = operator_problem_of(line + " threads1");
        const OperatorData data = make_data(p);
        const OperatorOutcome one = must_run(p, data);
        for (const int threads : {2, 3, 8}) {
            p.threads = threads;
            EXPECT_TRUE(must_run(p, data).bits == one.bits) << line << " threads " << threads;
        }
    }
}

// A packed sequence beside others, and alone.
TEST(OperatorSequences, OnTheCpuDoNotDependOnOthersWhereAsked) {
    for (const char* numbers : {"logaddexp f32 c200 BCT", "logaddexp f64 c3 BCT", "add f32 c2 BCT", "add bf16 c70"}) {
        OperatorProblem p =
            operator_problem_of(std::string("operator fwd invariant b1 t10801 sequences301 ") + numbers);
        constexpr int64_t time = 9001;
        OperatorData data = make_data(p);
        data.offsets = {0, time};
        while (std::ssize(data.offsets) < p.sequences + 1) data.offsets.push_back(data.offsets.back() + 6);
        const OperatorOutcome beside = must_run(p, data);
        OperatorProblem alone = p;
        alone.time = time, alone.sequences = 1;
        OperatorData own = make_data(alone);
        own.offsets = {0, time};
        for (int64_t t = 0; t < time; ++t)
            for (int64_t c = 0; c < p.channels; ++c)
                own.input[alone.place(0, t, c, 1)] = data.input[p.place(0, t, c, 1)];
        const OperatorOutcome outcome = must_run(alone, own);
        for (int64_t t = 0; t < time; ++t)
            for (int64_t c = 0; c < p.channels; ++c)
                ASSERT_EQ(outcome[output_id][alone.place(0, t, c, 1)], beside[output_id][p.place(0, t, c, 1)])
                    << numbers << " step " << t << " channel " << c;
    }
}

// Also where outputs are so large that they are written past the caches.
TEST(OperatorAddresses, OnTheCpuLeaveEveryBit) {
    for (const char* numbers :
         {"add f32 c1024 t1300 b2", "add f32 c1024 t1300 b2 BCT", "mul f32 c65000 t41 b1 BCT reverse",
          "add bf16 c3 t901 b3 BCT exclusive", "logaddexp f64 c2 t3001 b1", "max f32 c48 t300 b2"}) {
        OperatorProblem p = operator_problem_of(std::string("operator fwd state-out ") + numbers);
        const OperatorData data = make_data(p);
        const OperatorOutcome aligned = must_run(p, data);
        p.misaligned = true;
        EXPECT_TRUE(must_run(p, data).bits == aligned.bits) << numbers;
    }
}

TEST_P(OperatorBits, OfOneSequenceDoNotDependOnTheBatchWhereAsked) {
    for (const std::string& line : lines()) {
        OperatorProblem p = operator_problem_of("fwd " + line + " invariant");
        if (p.batch > 1 || p.channels > 1) continue;
        const OperatorData one = make_data(p);
        const OperatorOutcome alone = run(p, one);
        p.batch = 9;
        OperatorData nine = one;
        for (int k = 1; k < 9; ++k) {
            nine.input.insert(nine.input.end(), one.input.begin(), one.input.end());
            nine.gate.insert(nine.gate.end(), one.gate.begin(), one.gate.end());
            nine.state_in.insert(nine.state_in.end(), one.state_in.begin(), one.state_in.end());
        }
        const OperatorOutcome many = run(p, nine);
        EXPECT_TRUE(std::equal(alone[output_id].begin(), alone[output_id].end(), many[output_id].begin())) << line;
    }
}

// Outputs that depend on the first number alone are that number.
TEST(OperatorZeros, OfAFirstNegativeZeroOnTheCpuAreItsOwn) {
    for (const char* shape : {"b1 c1 BCT", "b1 c1 BCT reverse", "b2 c40 BCT", "b2 c3"})
        for (const int64_t time : {1, 2, 700}) {
            OperatorProblem p =
                operator_problem_of(std::string("operator fwd logaddexp f32 exclusive state-out ") + shape);
            p.time = time;
            OperatorData data = make_data(p);
            std::fill(data.input.begin(), data.input.end(), Value(-0.0));
            const OperatorOutcome outcome = must_run(p, data);
            const Value after =
                time == 1 ? outcome[state_id][0] : outcome[output_id][p.place(0, p.reverse ? time - 2 : 1, 0, 1)];
            EXPECT_TRUE(after.real() == 0 && std::signbit(after.real())) << shape << " t" << time;
        }
}

// Nothing that kernels add to what a problem has, as steps that do not exist, makes +0 of -0.
TEST_P(OperatorBits, OfSumsOfNegativeZerosAreTheirs) {
    for (const char* dtype : {"f32", "bf16", "f16", "f64", "c64"})
        for (const char* shape : {"b3 t9 c1", "b2 t101 c3 BCT", "b2 t700 c2 BCT reverse", "b1 t9001 c1", "b2 t300 c64"})
            for (const char* mode : {"inclusive", "reduction", "inclusive state-in", "exclusive state-in"}) {
                const std::string line = std::string("operator fwd add state-out ") + dtype + " " + shape + " " + mode;
                const OperatorProblem p = operator_problem_of(line);
                OperatorData data = make_data(p);
                const auto is_negative = [](const Value& x) { return std::signbit(x.real()) && x.real() == 0; };
                std::fill(data.input.begin(), data.input.end(), Value(-0.0, -0.0));
                std::fill(data.state_in.begin(), data.state_in.end(), Value(-0.0, -0.0));
                const OperatorOutcome outcome = run(p, data);
                for (const int32_t id : {output_id, state_id})
                    EXPECT_TRUE(std::all_of(outcome[id].begin(), outcome[id].end(), is_negative)) << line << " " << id;
            }
}

// Shapes of rows that kernels scan by warps, blocks and several blocks, in both layouts.
constexpr const char* long_and_short[] = {"b1 t9001 c1",           "b2 t3000 c3 BCT", "b2 t3000 c3 BCT reverse",
                                          "b3 t333 c5 BCT",        "b2 t1024 c64",    "b2 t1000 c40 reverse",
                                          "b1 t40 c3 BCT reverse", "b2 t256 c32 BCT"};

// Calls take(b, c, i, place) for step i of each row, counted in the order of the scan, and its place in the arrays.
template <typename Take>
void for_steps_in_order(const OperatorProblem& p, Take&& take) {
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t c = 0; c < p.channels; ++c)
            for (int64_t i = 0; i < p.time; ++i) take(b, c, i, p.place(b, p.reverse ? p.time - 1 - i : i, c, 1));
}

// What min or max, and logaddexp, make of a row one step after another.
template <typename Combine>
void expect_steps(const OperatorProblem& p, const OperatorData& data, const Values& output, Combine&& combine,
                  const std::function<bool(double, double)>& agree) {
    double y = 0;
    bool agrees = true;
    for_steps_in_order(p, [&](int64_t, int64_t, int64_t i, size_t place) {
        if (!agrees) return;  // one failure is enough
        const double x = data.input[place].real();
        y = i == 0 ? x : combine(y, x);
        agrees = agree(output[place].real(), y);
        ASSERT_TRUE(agrees) << text_of(p) << ": step " << i << " got " << output[place].real() << ", expected " << y;
    });
}

// Signs of zeros and NaNs are those of the element that is taken: of equal ones the first, of NaN the first.
TEST_P(OperatorBits, OfMinimaAndMaximaAreThoseOfAnElement) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const char* dtype : {"f32", "bf16", "f16", "f64"})
        for (const char* shape : long_and_short)
            for (const bool max : {false, true})
                for (const bool has_nan : {false, true}) {
                    const OperatorProblem p = operator_problem_of(std::string("operator fwd ") +
                                                                  (max ? "max " : "min ") + dtype + " " + shape);
                    OperatorData data = make_data(p);
                    // Numbers on the far side of 0, then zeros of both signs, then numbers on the near side.
                    for_steps_in_order(p, [&](int64_t b, int64_t c, int64_t i, size_t place) {
                        const int64_t part = (8 + c + b) * i / p.time, any = (i * 7 + c * 3 + b) % 11;
                        const double zero = any % 3 == 0 ? -0.0 : 0.0;
                        double x = part < 3 ? -1.0 - static_cast<double>(any) : zero;
                        if (part > 5 && any == 4) x = static_cast<double>(part);
                        if (has_nan && part > 4 && any == 7) x = nan;
                        data.input[place] = max ? x : -x;
                    });
                    const OperatorOutcome outcome = run(p, data);
                    const auto later_is_taken = [&](double l, double r) { return l == l && !(max ? r <= l : r >= l); };
                    expect_steps(
                        p, data, outcome[output_id], [&](double l, double r) { return later_is_taken(l, r) ? r : l; },
                        [](double got, double want) {
                            return want != want ? got != got : got == want && std::signbit(got) == std::signbit(want);
                        });
                }
}

// logaddexp of -infinity and a number is the number.
TEST_P(OperatorBits, OfLogarithmsOfOneNumberAreTheNumber) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const char* dtype : {"f32", "bf16", "f16"})
        for (const char* shape : long_and_short)
            for (const float number : {951.04376220703125F, 819762.4375F, 0.3F, -77.7F, 952.0F, -0.28125F}) {
                const bool short_number = number == 952.0F || number == -0.28125F;  // of 8 digits
                if (!short_number && std::string(dtype) != "f32") continue;
                for (const int64_t place : {0, 7, 39}) {
                    const OperatorProblem p =
                        operator_problem_of(std::string("operator fwd logaddexp ") + dtype + " " + shape);
                    OperatorData data = make_data(p);
                    for_steps_in_order(p, [&](int64_t, int64_t, int64_t i, size_t at) {
                        data.input[at] = i == place ? static_cast<double>(number) : -infinity;
                    });
                    const OperatorOutcome outcome = run(p, data);
                    expect_steps(
                        p, data, outcome[output_id], [](double l, double r) { return std::max(l, r); },
                        [](double got, double want) { return got == want; });
                }
            }
}

// Numbers that are far apart, next to the largest of their dtype, or infinite.
TEST_P(OperatorBits, OfFarLogarithmsAreNearTheReference) {
    const double infinity = std::numeric_limits<double>::infinity();
    struct Type {
        const char* name;
        double largest, roundoff;
    };
    for (const Type& type : {Type{"f32", 3e38, 0x1p-22}, Type{"bf16", 0x1.8p127, 0x1p-8}, Type{"f16", 65000, 0x1p-10}})
        for (const char* shape : long_and_short)
            for (const bool infinite : {false, true}) {
                const OperatorProblem p =
                    operator_problem_of(std::string("operator fwd logaddexp ") + type.name + " " + shape);
                OperatorData data = make_data(p);
                for_steps_in_order(p, [&](int64_t b, int64_t c, int64_t i, size_t place) {
                    const int64_t part = (8 + c + b) * i / p.time, any = (i * 7 + c * 3 + b) % 11;
                    const double levels[] = {-type.largest, -1e20, -2e9, -4e6, -40, 24, 3e6, 1e11, 1e20};
                    double x = levels[std::min<int64_t>(part, 8)] + static_cast<double>(any);
                    if (part < 1) x = infinite && any != 5 ? -infinity : -type.largest;
                    if (part > 6) x = any == 5 ? (infinite ? infinity : type.largest) : x;
                    if (!std::isinf(x)) x = std::clamp(x, -type.largest, type.largest);
                    data.input[place] = x;
                });
                const OperatorOutcome outcome = run(p, data);
                expect_steps(
                    p, data, outcome[output_id],
                    [&](double l, double r) {
                        const double most = std::max(l, r), least = std::min(l, r);
                        return most == least && std::isinf(most) ? most : most + std::log1p(std::exp(least - most));
                    },
                    [&](double got, double want) {
                        return got == want ||
                               std::abs(got - want) <= 8 * type.roundoff * std::max(std::abs(want), 16.0);
                    });
            }
}

// A megabyte is what few steps may take, whatever they are.
TEST_P(OperatorMemory, IsTheInputsAtMostAndGrowsWithTime) {
    const auto scratch_of = [](const OperatorProblem& p, int32_t pass) {
        const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
        EXPECT_TRUE(plan) << plan.message();
        return static_cast<double>(plan.bytes(pass, FLASHSCAN_ARG_SCRATCH));
    };
    constexpr double few = 1 << 20;
    for (const char* elements : {"add b4 c64", "logaddexp b1 c1 BCT", "matmul b2 c1 d3", "matmul b1 c1 d16",
                                 "matmul b1 c1 d64", "matmul b1 c1 d130", "affine b1 c2 d32", "affine b2 c3 d4"})
        for (const char* mode : {"inclusive", "exclusive", "reduction"}) {
            OperatorProblem p = operator_problem_of(std::string("operator f32 ") + elements + " " + mode);
            double last = 0;
            for (p.time = 1000; p.time <= 8000; p.time *= 2) {
                const auto input =
                    static_cast<double>(4 * p.batch * p.time * p.channels * (p.element() + p.gate_element()));
                const double most = p.reduction() ? input / 2 : input;
                EXPECT_LE(scratch_of(p, FLASHSCAN_PASS_FORWARD), most + few) << text_of(p);
                const double backward = scratch_of(p, FLASHSCAN_PASS_BACKWARD);
                EXPECT_LE(backward, last > 0 ? 2.5 * last + few : 40 * input + few) << text_of(p);
                last = backward;
            }
        }
}

// exclusive[t + 1] = inclusive[t], but for the bracketing where time is cut, and the final states agree.
TEST_P(OperatorModes, ExclusiveIsInclusiveOneStepLater) {
    for (const std::string& line : lines()) {
        OperatorProblem p = operator_problem_of("fwd " + line);
        const OperatorData data = make_data(p);
        const OperatorOutcome inclusive = run(p, data);
        p.mode = FLASHSCAN_MODE_EXCLUSIVE;
        const OperatorOutcome exclusive = run(p, data);
        EXPECT_TRUE(inclusive.bits.at(state_id) == exclusive.bits.at(state_id)) << line;
        for (int64_t t = 0; t + 1 < p.time; ++t) {
            const int64_t here = p.reverse ? p.time - 1 - t : t, next = p.reverse ? here - 1 : here + 1;
            const double want = inclusive[output_id][p.place(0, here, 0, p.element())].real();
            const double got = exclusive[output_id][p.place(0, next, 0, p.element())].real();
            ASSERT_NEAR(got, want, 1e-5 * std::abs(want)) << line << " step " << t;
        }
    }
}

// A sequence cut in two and carried on through its state.
TEST_P(OperatorStates, CarryASequenceOn) {
    for (const char* kind : {"add", "mul", "min", "logaddexp", "matmul d3", "affine d4"}) {
        OperatorProblem p = operator_problem_of(std::string("operator fwd f64 b1 t101 c1 state-in state-out ") + kind);
        const OperatorData whole = make_data(p);
        const OperatorOutcome all = run(p, whole);
        OperatorProblem part = p;
        OperatorData data = whole;
        Values joined;
        for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 40}, {40, 101}}) {
            part.time = end - begin;
            const auto cut = [&](const Values& from, int64_t size) {
                return Values(from.begin() + begin * size, from.begin() + end * size);
            };
            data.input = cut(whole.input, p.element());
            if (p.affine()) data.gate = cut(whole.gate, p.gate_element());
            const OperatorOutcome outcome = run(part, data);
            joined.insert(joined.end(), outcome[output_id].begin(), outcome[output_id].end());
            data.state_in = outcome[state_id];
        }
        for (size_t i = 0; i < joined.size(); ++i)
            ASSERT_NEAR(joined[i].real(), all[output_id][i].real(), 1e-12 * (1 + std::abs(joined[i]))) << kind;
    }
}

// With a diagonal W every number is a linear recurrence of its own.
TEST(OperatorAffine, WithDiagonalMatricesIsTheLinearRecurrence) {
    constexpr int64_t d = 5;
    OperatorProblem p = operator_problem_of("operator affine bwd f64 b2 t50 c1 d5 state-in state-out");
    OperatorData data = make_data(p);
    Problem linear;
    linear.dtype = linear.gate_dtype = FLASHSCAN_DTYPE_F64;
    linear.batch = 2, linear.time = 50, linear.channels = d;
    linear.state_in = linear.state_out = true;
    Data same = make_data(linear);
    for (size_t i = 0; i < data.gate.size(); ++i) {
        const size_t step = i / (d * d), row = i / d % d, column = i % d;
        data.gate[i] = row == column ? same.gate[step * d + row] : Value(0);
    }
    same.input = data.input, same.state_in = data.state_in;
    same.grad_output = data.grad_output, same.grad_state_out = data.grad_state_out;
    const OperatorOutcome got = must_run(p, data);
    const Outcome forward = run_forward(linear, {}, same, Guard::end);
    require(forward);
    same.output = forward.output;
    const Outcome backward = run_backward(linear, {}, same, Guard::end);
    require(backward);
    const auto compare = [](const Values& a, const Values& b) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i].real(), b[i].real(), 1e-12 * (1 + std::abs(b[i])));
    };
    compare(got[output_id], forward.output);
    compare(got[state_id], forward.state_out);
    compare(got[grad | FLASHSCAN_ARG_INPUT], backward.grad_input);
    compare(got[grad | FLASHSCAN_ARG_STATE_IN], backward.grad_state_in);
    Values diagonal;
    for (size_t i = 0; i < data.gate.size(); i += d + 1) {
        diagonal.push_back(got[grad | FLASHSCAN_ARG_GATE][i]);
        if (i % (d * d) == d * d - 1) i -= d;  // the next matrix starts with its own diagonal
    }
    compare(diagonal, backward.grad_gate);
}

TEST_P(OperatorValuesOf, TiesZerosAndSpecialNumbers) {
    constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    struct Known {
        const char* line;
        Values input, output, grad_input;
    };
    const Known known[] = {
        {"max inclusive", {1, 3, 3, 2, 5}, {1, 3, 3, 3, 5}, {1, 3, 0, 0, 1}},
        {"min inclusive", {2, 2, 1, 1, 4}, {2, 2, 1, 1, 1}, {2, 0, 3, 0, 0}},
        {"max inclusive", {1, nan, 9, nan, 0}, {1, nan, nan, nan, nan}, {1, 4, 0, 0, 0}},
        {"mul inclusive", {2, 0, 3, 0, 5}, {2, 0, 0, 0, 0}, {1, 2 + 6, 0, 0, 0}},
        {"mul reduction", {2, 3, 0, 5, 7}, {0}, {0, 0, 210, 0, 0}},
        {"max exclusive", {1, 3, 3, 2, 5}, {-inf, 1, 3, 3, 3}, {1, 3, 0, 0, 0}},
        {"logaddexp inclusive", {-inf, -inf, 0, 0, inf}, {-inf, -inf, 0, std::log(2), inf}, {}},
    };
    for (const char* dtype : {"f32", "f64"})
        for (const Known& k : known) {
            const OperatorProblem p = operator_problem_of(std::string("operator b1 t5 c1 ") + dtype + " " +
                                                          (k.grad_input.empty() ? "fwd " : "bwd ") + k.line);
            OperatorData data = make_data(p);
            data.input = k.input;
            std::fill(data.grad_output.begin(), data.grad_output.end(), Value(1));
            // The scan of NaN is compared by itself: NaN is not equal to NaN.
            const OperatorOutcome outcome = run(p, data);
            const auto same = [](Value a, Value b) {
                return std::isnan(b.real()) ? std::isnan(a.real())
                                            : a == b || std::abs(a.real() - b.real()) < 1e-6 * std::abs(b.real());
            };
            for (size_t i = 0; i < k.output.size(); ++i)
                EXPECT_TRUE(same(outcome[output_id][i], k.output[i]))
                    << k.line << " " << i << " " << outcome[output_id][i];
            for (size_t i = 0; i < k.grad_input.size(); ++i)
                EXPECT_EQ(outcome[grad | FLASHSCAN_ARG_INPUT][i], k.grad_input[i]) << k.line << " gradient " << i;
        }
}

const auto each_backend = testing::ValuesIn(operator_kernel_targets());
constexpr auto name_of_backend = [](const testing::TestParamInfo<Target>& info) { return text_of(info.param); };
INSTANTIATE_TEST_SUITE_P(Operator, OperatorBits, each_backend, name_of_backend);
INSTANTIATE_TEST_SUITE_P(Operator, OperatorModes, each_backend, name_of_backend);
INSTANTIATE_TEST_SUITE_P(Operator, OperatorMemory, each_backend, name_of_backend);
INSTANTIATE_TEST_SUITE_P(Operator, OperatorStates, each_backend, name_of_backend);
INSTANTIATE_TEST_SUITE_P(Operator, OperatorValuesOf, each_backend, name_of_backend);

}  // namespace
}  // namespace numeric
