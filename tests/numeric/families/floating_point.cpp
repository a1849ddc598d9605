// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of the thread that calls: workers compute in it, and calls raise no exceptions in it
// that their numbers do not.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "support/operator_check.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

enum class Mode {
    upward,
    flushed  // denormal results and operands are 0
};

// Sets a mode and restores what was before.
class Scope {
  public:
    explicit Scope(Mode mode) {
        std::fegetenv(&before_);
        if (mode == Mode::upward) std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
        if (mode == Mode::flushed) _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
    }
    ~Scope() { std::fesetenv(&before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

  private:
    std::fenv_t before_{};
};

// Runs a call in both modes, 60 times each, after it ran in the usual one so that all threads exist. Values are so
// small that each mode changes some in the parts of all threads.
void expect_equal_bits_in_modes(const flashscan_plan* plan, Call& call) {
    ASSERT_EQ(call.run(plan), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    const auto usual = call.output_bytes();
    for (const Mode mode : {Mode::upward, Mode::flushed}) {
        std::map<int32_t, Bytes> first;
        for (int run = 0; run < 60; ++run) {
            call.prepare();
            flashscan_status status = FLASHSCAN_STATUS_OK;
            {
                const Scope scope(mode);
                status = call.execute(plan);
            }
            ASSERT_EQ(status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
            call.collect();
            if (run == 0) first = call.output_bytes();
            ASSERT_TRUE(call.output_bytes() == first) << "run " << run << " of mode " << static_cast<int>(mode);
        }
#if defined(__x86_64__)
        EXPECT_TRUE(first != usual) << "mode " << static_cast<int>(mode) << " changes nothing";
#endif
    }
    ASSERT_EQ(call.run(plan), FLASHSCAN_STATUS_OK);
    EXPECT_TRUE(call.output_bytes() == usual) << "a mode outlives its calls";
}

void make_small(Values& values) {
    for (Value& value : values) value *= 0x1p-127;
}

class FloatingPoint : public testing::TestWithParam<Target> {};

TEST_P(FloatingPoint, WorkersOfLinearRecurrencesTakeTheCallersMode) {
    for (const char* line :
         {"linear f32 BTC b8 t300 c64 threads4 caller-scratch", "linear f32 BCT b1 t9000 c2 threads4 caller-scratch"}) {
        SCOPED_TRACE(line);
        const Problem p = problem_of(line);
        Data data = make_data(p);
        make_small(data.input);
        const Plan plan(p, GetParam());
        Call call = forward_call(p, plan, GetParam().backend, data, Guard::end);
        expect_equal_bits_in_modes(plan.get(), call);
    }
}

TEST_P(FloatingPoint, WorkersOfNetworksTakeTheCallersMode) {
    const RnnProblem p = rnn_problem_of("rnn elman f32 b24 t20 h2 d24 threads4 caller-scratch");
    RnnData data = make_data(p);
    make_small(data.input);
    for (Value& r : data.weight) r *= 0x1p-70;
    for (Value& b : data.bias) b = 0;
    const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
    Call call = forward_call(p, plan, GetParam().backend, data, Guard::end);
    expect_equal_bits_in_modes(plan.get(), call);
}

TEST_P(FloatingPoint, WorkersOfOperatorsTakeTheCallersMode) {
    for (const char* line : {"operator add inclusive f32 b8 t300 c40 threads4 caller-scratch",
                             "operator matmul inclusive f32 b8 t60 c2 d5 threads4 caller-scratch"}) {
        SCOPED_TRACE(line);
        const OperatorProblem p = operator_problem_of(line);
        OperatorData data = make_data(p);
        // Products of small matrices would be 0: the first of each chain is small.
        const auto size = static_cast<size_t>(p.element());
        for (size_t i = 0; i < data.input.size(); ++i)
            if (!p.matmul() || i / size % static_cast<size_t>(p.time * p.channels) < static_cast<size_t>(p.channels))
                data.input[i] *= 0x1p-127;
        const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
        Call call = forward_call(p, plan, GetParam().backend, data, Guard::end);
        expect_equal_bits_in_modes(plan.get(), call);
    }
}

// Gates, inputs and states of ordinary size, whatever lies behind their ends in the kernels' panels.
TEST_P(FloatingPoint, OrdinaryGatesRaiseNoExceptions) {
    for (const char* line :
         {"linear f32 BTC b2 t600 c5 form-log state-in", "linear f32 BTC b1 t5000 c5 form-log place-spread threads1",
          "linear f32 BTC b2 t600 c67 form-logit threads1", "linear f32 BCT b2 t601 c3 form-log threads1",
          "linear f32 BCT b1 t9001 c2 form-log place-spread threads1", "linear bf16 BTC b2 t600 c7 form-log threads1",
          "linear f64 BTC b2 t603 c3 form-log threads1", "linear f64 BCT b2 t603 c3 form-logit threads1",
          "linear c64 BTC b2 t301 c3 form-log threads1", "linear c64 gate-f32 BTC b2 t301 c3 form-log threads1",
          "linear f32 BTC b2 t600 c5 form-log broadcast-t threads1",
          "linear f32 BTC b2 t600 c5 form-log broadcast-c threads1"}) {
        SCOPED_TRACE(line);
        const Problem p = problem_of(line);
        Data data = make_data(p);
        for (size_t i = 0; i < data.gate.size(); ++i) data.gate[i] = rounded(p.gate_dtype, -uniform(p.seed, 99, i));
        (void)reference_of(p, data);
        const Plan plan(p, GetParam());
        for (const bool backward : {false, true}) {
            Call call = backward ? backward_call(p, plan, GetParam().backend, data, Guard::end)
                                 : forward_call(p, plan, GetParam().backend, data, Guard::end);
            for (int run = 0; run < 3; ++run) {
                call.prepare();
                std::feclearexcept(FE_ALL_EXCEPT);
                const flashscan_status status = call.execute(plan.get());
                const int raised = std::fetestexcept(FE_OVERFLOW | FE_DIVBYZERO | FE_INVALID);
                ASSERT_EQ(status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
                EXPECT_EQ(raised, 0) << (backward ? "backward" : "forward") << (raised & FE_OVERFLOW ? " overflow" : "")
                                     << (raised & FE_INVALID ? " invalid" : "");
            }
        }
    }
}

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

INSTANTIATE_TEST_SUITE_P(OnTheCpu, FloatingPoint, testing::Values(Target{FLASHSCAN_BACKEND_CPU, ""}), name_of_target);

}  // namespace
}  // namespace numeric
