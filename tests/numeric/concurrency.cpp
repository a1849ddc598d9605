// SPDX-License-Identifier: Apache-2.0
// One plan executed from many threads, and from a forked child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support/operator_check.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

Problem shared_problem() {
    Problem p;
    p.batch = 2;
    p.time = 700;
    p.channels = 9;
    p.form = FLASHSCAN_GATE_LOGIT;
    p.broadcast = FLASHSCAN_BROADCAST_BATCH;
    p.state_in = p.state_out = true;
    return p;
}

class Concurrency : public testing::TestWithParam<Target> {};

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

// Runs `calls` five times and keeps the bits; says what went wrong.
std::string run_often(const flashscan_plan* plan, std::vector<Call> calls, std::map<int32_t, Bytes>& bits) {
    std::string trouble;
    for (int repeat = 0; repeat < 5; ++repeat)
        for (Call& call : calls) {
            if (call.run(plan) != FLASHSCAN_STATUS_OK) trouble += flashscan_last_error();
            trouble += call.damage();
            for (auto& [id, bytes] : call.output_bytes()) {
                if (repeat > 0 && bits[id] != bytes) trouble += "bits differ between runs; ";
                bits[id] = bytes;
            }
        }
    return trouble;
}

// `run` on this thread, then on eight at once: each fills its bits, which must be those of this thread, and says what
// went wrong.
void expect_equal_bits(const std::function<std::string(std::map<int32_t, Bytes>&)>& run) {
    constexpr size_t count = 8;
    std::vector<std::map<int32_t, Bytes>> bits(count + 1);
    std::vector<std::string> trouble(count + 1);
    trouble[count] = run(bits[count]);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { trouble[i] = run(bits[i]); });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i <= count; ++i) {
        EXPECT_EQ(trouble[i], "") << "thread " << i;
        EXPECT_TRUE(bits[i] == bits[count]) << "thread " << i << " got other bits";
    }
}

TEST_P(Concurrency, EightThreadsShareAPlan) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const Problem p = shared_problem();
    Data data = make_data(p);
    (void)reference_of(p, data);
    const Plan plan(p, GetParam());
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    const int32_t backend = GetParam().backend;
    expect_equal_bits([&](std::map<int32_t, Bytes>& bits) {
        return run_often(
            plan.get(),
            {forward_call(p, plan, backend, data, Guard::end), backward_call(p, plan, backend, data, Guard::end)},
            bits);
    });
}

INSTANTIATE_TEST_SUITE_P(Shared, Concurrency, testing::ValuesIn(planner_targets()), name_of_target);

// Forward and backward of one plan from eight threads. `kept`: what backward_call takes of a forward call that ran.
template <typename Problem, typename Kept>
void expect_shared_plan(const Problem& p, const Target& target, Kept&& kept) {
    const auto data = make_data(p);
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) return;
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    expect_equal_bits([&](std::map<int32_t, Bytes>& bits) {
        Call forward = forward_call(p, plan, target.backend, data, Guard::end);
        if (forward.run(plan.get()) != FLASHSCAN_STATUS_OK) return std::string(flashscan_last_error());
        const Call backward = backward_call(p, plan, target.backend, data, kept(forward), Guard::end);
        return run_often(plan.get(), {forward, backward}, bits);
    });
}

class RnnConcurrency : public testing::TestWithParam<Target> {};

const char* const shared_networks[] = {"rnn lstm bf16 b5 t40 h2 d24 state-in state-out reset",
                                       "rnn gru-reset-before f32 b3 t30 h1 d40 reverse all-states",
                                       "rnn slstm f32 b1 t50 h3 d16 sequences4 state-in caller-scratch",
                                       "rnn elman f16 b17 t20 h1 d33 weight-f32 state-in"};

TEST_P(RnnConcurrency, EightThreadsShareAPlan) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    for (const char* line : shared_networks) {
        SCOPED_TRACE(line);
        expect_shared_plan(fitted(rnn_problem_of(line), GetParam()), GetParam(),
                           [](const Call& forward) -> const Call& { return forward; });
    }
}

// What plans share behind the interface is made by whichever comes first.
TEST_P(RnnConcurrency, EightThreadsMakePlansOfTheirOwn) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    expect_equal_bits([&](std::map<int32_t, Bytes>& bits) {
        std::string trouble;
        for (const char* line : shared_networks) {
            const RnnProblem p = fitted(rnn_problem_of(line), GetParam());
            const RnnOutcome outcome = run_rnn(p, GetParam(), make_data(p), Guard::end);
            if (!GetParam().kernel.empty() && outcome.status == FLASHSCAN_STATUS_UNSUPPORTED) continue;
            trouble += outcome.message + outcome.damage;
            for (const auto& [id, bytes] : outcome.bits) bits[static_cast<int32_t>(bits.size())] = bytes;
        }
        return trouble;
    });
}

INSTANTIATE_TEST_SUITE_P(Shared, RnnConcurrency, testing::ValuesIn(rnn_kernel_targets()), name_of_target);

class OperatorConcurrency : public testing::TestWithParam<Target> {};

const char* const shared_scans[] = {"operator add inclusive bf16 b3 t700 c5 state-in state-out",
                                    "operator logaddexp exclusive f32 BCT b2 t900 c3 state-in reverse",
                                    "operator max reduction f32 b1 t400 c7 sequences4 caller-scratch",
                                    "operator matmul inclusive f32 b1 t300 c2 d3 state-in",
                                    "operator matmul reduction f64 b2 t200 c1 d17 state-in",
                                    "operator affine inclusive f32 b2 t300 c1 d4 state-in state-out"};

TEST_P(OperatorConcurrency, EightThreadsShareAPlan) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    for (const char* line : shared_scans) {
        SCOPED_TRACE(line);
        expect_shared_plan(operator_problem_of(line), GetParam(),
                           [](const Call& forward) { return forward.values(FLASHSCAN_ARG_OUTPUT); });
    }
}

INSTANTIATE_TEST_SUITE_P(Shared, OperatorConcurrency, testing::ValuesIn(operator_kernel_targets()), name_of_target);

#if !defined(__SANITIZE_THREAD__)
TEST(Fork, ChildRunsAfterTheParentUsedThreads) {
    Problem p = shared_problem();
    p.time = 20000;
    p.threads = 2;
    Data data = make_data(p);
    const Plan plan(p, {});
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    ASSERT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    const auto bits = call.output_bytes();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(30);  // a child that waits for threads it does not have is ended by the signal
        const bool ok = call.run(plan.get()) == FLASHSCAN_STATUS_OK && call.output_bytes() == bits;
        const Plan fresh(p, {});
        const bool again = fresh && call.run(fresh.get()) == FLASHSCAN_STATUS_OK && call.output_bytes() == bits;
        _exit(ok && again ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << (WIFSIGNALED(status) ? "the child was ended by a signal" : "the child's results differ");
}
#endif

}  // namespace
}  // namespace numeric
